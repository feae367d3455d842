"""Functions of the user's own by name: how they are found, and what is said when they cannot be used."""

import shutil
import sys

import pytest

import tasks
from tests import ROOT
from tff_momentum import algorithms, registry, user_code
from tff_momentum.registry import REQUIRED
from tff_momentum.user_code import UserCodeError

ALGO, TASK = "my_research.momentum:server_momentum", "my_research.plane:load"


@pytest.fixture
def project(tmp_path, monkeypatch):
  """A user's project as the working directory; its modules are forgotten afterwards."""
  shutil.copytree(ROOT / "tests/helpers/user_project", tmp_path, dirs_exist_ok=True)
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", list(sys.path))
  yield tmp_path
  user_code.find.cache_clear()
  for name in [name for name in sys.modules if name.partition(".")[0] in ("my_research", "mine")]:
    del sys.modules[name]


def test_an_algorithm_is_described_by_its_signature(project):
  info = registry.info(ALGO)
  assert info.hyperparameters == {
    "client_learning_rate": REQUIRED,
    "beta": 0.5,
    "variant": "heavy_ball",
    "num_clients": REQUIRED,
  }
  assert info.rule == "Server momentum with client states that count a client's rounds."
  assert not info.asynchronous
  built = algorithms.build(ALGO, {"client_learning_rate": 0.1, "num_clients": 3})
  assert built.exchanges


def test_a_task_is_described_by_its_signature_and_records_its_options(project):
  assert tasks.info(TASK).options == {"num_clients": 12, "spread": 1.0, "points_per_client": 30}
  task = tasks.load(TASK, seed=1, spread=2.0)
  assert task.details == {"num_clients": 12, "spread": 2.0, "points_per_client": 30}
  with pytest.raises(ValueError, match="has no option 'sprad'"):
    tasks.load(TASK, seed=1, sprad=2.0)


def test_a_builder_with_max_staleness_is_asynchronous(project):
  (project / "mine.py").write_text("def build(*, client_learning_rate, max_staleness=3): ...\n")
  assert registry.info("mine:build").asynchronous


def test_the_working_directory_comes_last(project):
  """A user's `tasks.py` must not hide the project's."""
  (project / "tasks.py").write_text("raise SystemExit('the wrong module')\n")
  (project / "mine.py").write_text("import tasks\n\n\ndef load(*, seed): return tasks.load\n")
  user_code.find("mine:load")
  assert sys.path[-1] == str(project)


@pytest.mark.parametrize(
  ("name", "message"),
  [
    (
      "my_research.momentun:server_momentum",
      "expected a module my_research.momentun for .*PYTHONPATH",
    ),
    ("nowhere:build", "expected a module nowhere for nowhere:build; found none in "),
    ("my_research.momentum:sever_momentum", "found none: it defines .*server_momentum"),
    ("my_research.momentum:NOT_A_FUNCTION", "found int 3: name a function"),
    ("my_research.momentum:", "expected a name like my_package.my_module:my_function; found"),
    ("my research:x", "expected a name like"),
    ("my_research.broken:build", r"failed: RuntimeError: no licence \(.*broken.py, line 3\)"),
    ("tasks.mine:load", "found tasks, a name that this project takes: rename your module"),
  ],
)
def test_a_name_that_cannot_be_found_is_answered_with_one_sentence(project, name, message):
  with pytest.raises(UserCodeError, match=message) as caught:
    registry.info(name)
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("source", "message"),
  [
    ("def build(rate, /): ...", "found rate, which is given by position only: remove the /"),
    (
      "def build(*, rate=object()): ...",
      "expected the default of rate in mine:build to be a number",
    ),
    ("def build(: ...", r"SyntaxError: .* \(.*mine.py, line 1\)"),
    ("import there_is_no_such_module", "failed: ModuleNotFoundError: No module named 'there_is"),
  ],
)
def test_a_function_that_cannot_be_used_is_answered_with_one_sentence(project, source, message):
  (project / "mine.py").write_text(source + "\n")
  with pytest.raises(UserCodeError, match=message):
    registry.info("mine:build")


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("no_algorithm", "to return a tff_momentum.Algorithm; found an object of type dict: return a"),
    (
      "with_a_bug",
      r"failed: NameError: name 'undefined' is not defined \(.*momentum.py, line 5\d\)",
    ),
  ],
)
def test_a_builder_that_fails_is_answered_with_one_sentence(project, name, message):
  with pytest.raises(UserCodeError, match=message):
    algorithms.build(f"my_research.momentum:{name}", {"client_learning_rate": 0.1})


def test_a_builder_refuses_values_in_its_own_words(project):
  arguments = {"client_learning_rate": 0.1, "num_clients": 3, "beta": 2}
  with pytest.raises(ValueError, match="beta must be at least 0 and below 1; found 2"):
    algorithms.build(ALGO, arguments)


def test_a_load_that_returns_something_else_is_answered_with_one_sentence(project):
  with pytest.raises(
    UserCodeError, match=r"to return a tasks.task.Task; found an object of type list"
  ):
    tasks.load("my_research.plane:no_task", seed=1)
  with pytest.raises(
    UserCodeError, match="to take seed; found the arguments num_clients: add seed"
  ):
    tasks.info("my_research.plane:without_seed")
