"""docs/tasks.md: its tables of data and defaults agree with the code, and its example runs.

tests/docs holds what all pages share, and the table of models.
"""

import re
import subprocess
import sys

import pytest

import tasks
from tests import ROOT

PAGE = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")


def rows(text):
  """The cells of the rows of a Markdown table, without its header."""
  lines = [line for line in text.splitlines() if line.startswith("|")][2:]
  return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


(DEFAULTS,) = re.findall(r"<!-- defaults -->\n(.*?)\n<!-- /defaults -->", PAGE, re.DOTALL)
DEFAULTS = {(task, model): list(map(float, cells)) for task, model, *cells in rows(DEFAULTS)}
ALL = {*tasks.TASKS, "tfds:NAME"}


def assert_documented_defaults(name, task):
  """The page's row for this task and model; a task whose models share their defaults has one row."""
  name = "tfds:NAME" if name.startswith("tfds:") else name
  of_task = {model: values for (found, model), values in DEFAULTS.items() if found == name}
  model = task.details.get("model")
  documented = list(of_task[model] if len(of_task) > 1 else next(iter(of_task.values())))
  defaults = task.defaults
  if task.defaults.clients_per_round == len(
    task.clients
  ):  # a small federation takes part as a whole
    documented[1] = min(documented[1], len(task.clients))
  assert documented == pytest.approx(
    [
      defaults.total_rounds,
      defaults.clients_per_round,
      defaults.client_batch_size,
      defaults.client_epochs_per_round,
      defaults.client_learning_rate,
    ],
    rel=1e-3,
  )


@pytest.mark.parametrize("name", ["digits", "quadratic", "diabetes"])
def test_defaults_of_embedded_tasks(name):
  assert_documented_defaults(name, tasks.load(name, seed=0))


@pytest.mark.parametrize(
  ("name", "model"),
  [
    ("shakespeare", "lstm100"),
    ("shakespeare", "gru"),
    ("cifar10_dirichlet", "resnet20"),
    ("cifar10_dirichlet", "vgg11"),
    ("cifar100_dirichlet", "resnet20"),
    ("cifar100_dirichlet", "vgg11"),
    pytest.param("gldv2", "vit_b16", marks=pytest.mark.slow),
    pytest.param("inaturalist", "vit_b16", marks=pytest.mark.slow),
  ],
)
def test_defaults_that_depend_on_the_model(name, model):
  options = {"image_size": 32} if model == "vit_b16" else {}
  task = tasks.load(name, seed=0, model=model, data="synthetic", num_clients=2, **options)
  assert (name, model) in DEFAULTS
  assert_documented_defaults(name, task)


def test_every_task_has_its_rows():
  (data,) = re.findall(r"## Data\n(.*?)\n## ", PAGE, re.DOTALL)
  assert {row[0] for row in rows(data)} == ALL
  assert {task for task, _ in DEFAULTS} == ALL


def test_the_table_of_data_names_the_registrys_clients():
  """Where the number of clients is an option with a default, the page has that number."""
  (data,) = re.findall(r"## Data\n(.*?)\n## ", PAGE, re.DOTALL)
  for name, clients, *_ in rows(data):
    default = tasks.info(name).options.get("num_clients")
    if default is not None:
      assert int(clients.replace(",", "")) == default, name


def test_the_example_trains():
  (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
  result = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True)
  assert result.returncode == 0, result.stderr
  task, accuracy = result.stdout.splitlines()
  assert task.startswith("Task('clouds', synthetic data, 20 clients, 500 examples")
  assert float(accuracy.split()[-1]) > 0.85
