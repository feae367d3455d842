"""The registry of tasks: it matches the loaders and imports nothing heavy."""

import doctest
import inspect
import subprocess
import sys

import pytest

import tasks
from tasks import task as task_module
from tasks.data.partitions import classes_split, dirichlet_split, parsing, similarity_split
from tests import ROOT


@pytest.mark.parametrize("name", [*tasks.TASKS, "tfds:mnist"])
def test_options_are_the_keyword_arguments_of_the_loader(name):
  """Names, order and defaults; the seed is the only argument without a default."""
  parameters = inspect.signature(tasks.loader(name)).parameters
  assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())
  defaults = {option: p.default for option, p in parameters.items()}
  assert defaults.pop("seed") is inspect.Parameter.empty
  options = tasks.info(name).options
  assert list(defaults.items()) == list(options.items())
  assert [type(value) for value in defaults.values()] == [type(v) for v in options.values()]


def test_every_option_is_documented():
  for name in [*tasks.TASKS, "tfds:mnist"]:
    load = tasks.loader(name)
    text = inspect.getdoc(getattr(load, "func", load))
    for option in ["seed", *tasks.info(name).options]:
      assert f"\n  {option}: " in text, (name, option)


def test_the_registry_imports_nothing_heavy():
  heavy = "{'numpy', 'tensorflow', 'tensorflow_federated', 'sklearn'}"
  script = f"import sys, tasks; print(sorted({heavy} & set(sys.modules)))"
  found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
  assert found.stdout == "[]\n", found.stderr


def test_unknown_names_and_options_are_rejected():
  with pytest.raises(ValueError, match="There is no task 'digit': expected one of digits, "):
    tasks.load("digit", seed=0)
  expected = "The task digits has no option 'crop': expected one of num_clients, alpha, model"
  with pytest.raises(ValueError, match=expected):
    tasks.load("digits", seed=0, crop=24)


@pytest.mark.parametrize(
  "module",
  [tasks, task_module, classes_split, dirichlet_split, parsing, similarity_split],
  ids=lambda module: module.__name__,
)
def test_the_examples_run(module):
  results = doctest.testmod(module)
  assert results.attempted > 0
  assert results.failed == 0
