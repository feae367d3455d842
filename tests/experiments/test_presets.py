"""The presets: every file is read, names what exists, gives values that builders take, and starts."""

import functools
import re
import subprocess
import sys

import pytest

import tasks
from experiments.cli import assignments, presets, scale
from experiments.cli import flags as cli_flags
from experiments.cli.errors import UserError
from experiments.cli.flags import ALGORITHM_FLAGS, TASK_FLAGS
from experiments.sweeps import grids
from tests.helpers import preset_starts
from tff_momentum.papers import PAPERS
from tff_momentum.registry import ALGORITHMS

NAMES = presets.names()
# What the issue asks for, and how many runs the paper's table or figure has.
TABLES = {
  "ghbm/table1": 78, "ghbm/table2": 48, "ghbm/table3": 24, "ghbm/table6": 71, "ghbm/table7": 52,
  "ghbm/figure1": 12, "fedgbo/figure2": 59, "fedgbo/figure3": 59, "fedgbo/table4": 27,
  "fedgbo/table5": 18, "fedglomo/figure1": 20, "fedglomo/figure2": 6, "fedgm/figure1": 5,
  "fedgm/figure2": 12, "scaffold_mime/concrete": 3, "scaffold_mime/quadratic": 5,
  "scaffold_mime/emnist_similarity": 9, "adaptive/tuned": 20, "newer/authors": 12,
}  # fmt: skip


@functools.cache
def given(name):
  """A preset's flags by name; those of --set and --task_set as dicts."""
  found = {"set": {}, "task_set": {}}
  for flag in presets.read(name):
    key, _, value = flag.removeprefix("--").partition("=")
    if key in found and key in ("set", "task_set"):
      option, _, value = value.partition("=")
      assert option not in found[key]
      found[key][option] = value
    else:
      assert key not in found, f"{name} gives {key} twice"
      found[key] = value
  return found


@functools.cache
def task_options(task):
  return set(tasks.info(task).options)


@pytest.fixture(scope="module")
def flags_of_runs():
  from absl import flags

  if "task" not in flags.FLAGS:
    cli_flags.define_flags()
  return flags.FLAGS


def test_every_table_and_figure_is_there():
  for folder, runs in TABLES.items():
    assert len(presets.names(folder)) == runs, folder


def test_files_are_named_by_task_and_algorithm_and_cite_their_source():
  for name in NAMES:
    text = (presets.FOLDER / f"{name}.flags").read_text()
    paper, _, place = text.removeprefix("# ").partition(", ")
    assert paper in PAPERS, name
    assert re.match(r"Table|Figure|Mime's Figure|\"|tuned", place), name
    assert re.fullmatch(r"[a-z_]+/[a-z0-9_]+/[a-z0-9_]+", name)
    task = given(name)["task"]
    stem = name.split("/")[-1]
    assert stem.startswith(task.split("_")[0]), name


@pytest.mark.parametrize("folder", sorted({name.rpartition("/")[0] for name in NAMES}))
def test_presets_name_what_exists_and_give_values_that_builders_take(folder, flags_of_runs):
  from experiments.training import build

  for name in presets.names(folder):
    flags = given(name)
    task, algo = flags["task"], flags["algo"]
    assert task in tasks.TASKS, name
    assert algo in ALGORITHMS, name
    assert set(flags) <= {*flags_of_runs, "set", "task_set"}, name
    plain = {key: flags[key] for key in ALGORITHM_FLAGS if key in flags}
    found = assignments.hyperparameters(algo, {**plain, **flags["set"]})  # checks the names
    build.check_values(algo, found)
    assert "client_steps_per_round" not in flags or "client_epochs_per_round" not in flags, name
    options = {*flags["task_set"], *(key for key in flags if key in TASK_FLAGS)}
    assert options <= task_options(task), name


@pytest.mark.parametrize("folder", sorted({name.rpartition("/")[0] for name in NAMES}))
def test_grids_of_presets_name_hyperparameters_and_hold_values_that_builders_take(
  folder, flags_of_runs
):
  from experiments.training import build

  for name in presets.names(folder):
    flags = given(name)
    for text in presets.load(name).grids:
      grid = grids.read(text)
      flag = grids.flag_of(grid, flags["task"], flags["algo"])
      assert flag is not None, (name, text)
      if flag.startswith("--set=") or grid.name in ALGORITHM_FLAGS:
        for value in grid.values:
          point = {**flags["set"], grid.name: value}
          build.check_values(flags["algo"], assignments.hyperparameters(flags["algo"], point))


# The preset and the command line.


def test_what_is_typed_wins_over_the_preset():
  argv = ["run.py", "--preset=ghbm/table1/cifar100_cnn_fedhbm", "--set", "beta=0.5", "--seed=3",
          "--client_steps_per_round=2"]  # fmt: skip
  found = presets.expand(argv)
  assert found[0] == "run.py"
  assert "--task=cifar100_dirichlet" in found
  assert [flag for flag in found if "beta" in flag] == ["--set=beta=0.5"]
  assert not [flag for flag in found if flag.startswith("--client_epochs_per_round")]
  assert {"--seed=3", "--client_steps_per_round=2", "--total_rounds=20000"} <= set(found)


def test_a_typed_number_of_steps_displaces_the_presets_law():
  argv = ["run.py", "--preset=fedgm/figure1/cifar10_autofedgm", "--client_steps_per_round=2"]
  found = presets.expand(argv)
  assert [flag for flag in found if "steps" in flag] == ["--client_steps_per_round=2"]


def test_a_command_line_without_a_preset_stays_as_it_is():
  argv = ["run.py", "--task=digits", "--set", "beta=0.5"]
  assert presets.expand(argv) == argv


def test_scale_shrinks_the_preset_and_not_what_is_typed():
  argv = ["run.py", "--preset", "ghbm/table1/cifar100_cnn_fedhbm", "--scale=0.01"]
  assert {"--total_rounds=200", "--clients_per_round=2"} <= set(presets.expand(argv))
  assert "--total_rounds=7" in presets.expand([*argv, "--total_rounds=7"])


def test_scaled_numbers():
  assert scale.shrink("total_rounds", 1000, 0.05) == 50
  assert scale.shrink("total_rounds", 3, 0.01) == 1
  assert scale.shrink("clients_per_round", 50, 0.1) == 5
  assert scale.shrink("clients_per_round", 50, 0.001) == 2
  assert scale.shrink("clients_per_round", 1, 0.001) == 1
  assert scale.shrink("clients_per_round", 50, None) == 50


@pytest.mark.parametrize("factor", ["0", "1.5", "-1", "nan", "much"])
def test_a_bad_scale_is_refused(factor):
  with pytest.raises(UserError, match="--scale"):
    presets.scaled(["--total_rounds=10"], factor)


def test_a_wrong_name_is_answered_with_near_ones():
  with pytest.raises(UserError, match="ghbm/table1"):
    presets.names("ghmb/table1")
  with pytest.raises(UserError, match="folder of 78"):
    presets.read("ghbm/table1")


# Every preset starts.


def task_kind(name):
  flags = given(name)
  return flags["task"], flags.get("model"), flags.get("partition")


def algorithm_kind(name):
  flags = given(name)
  shape = [f"{key}={re.sub('[0-9.]+', '', value)}" for key, value in sorted(flags["set"].items())]
  return flags["algo"], *shape


# An algorithm is started on the cheapest task that has a preset of it.


def starts():
  """Presets to start, by their kind of task: every kind of task and every kind of algorithm at least once.

  Presets of one kind differ in numbers alone, which the tests above check. A task knows nothing of the
  algorithm and an algorithm nothing of the task, so that not every pair of kinds needs to be tried.
  """
  by_cost = sorted(NAMES, key=lambda name: (preset_starts.kind(name), name))
  chosen = list({algorithm_kind(name): name for name in reversed(by_cost)}.values())
  met = {task_kind(name) for name in chosen}
  chosen += {task_kind(n): n for n in reversed(by_cost) if task_kind(n) not in met}.values()
  groups = {}
  for name in sorted(chosen):
    groups.setdefault(task_kind(name), []).append(name)
  return groups


STARTS = starts()


def assert_start(names, folder):
  script = [sys.executable, "tests/helpers/preset_starts.py", str(folder), *names]
  result = subprocess.run(script, capture_output=True, text=True, timeout=3600)
  print(result.stdout)
  assert result.returncode == 0, (names, result.stdout[-500:], result.stderr[-2000:])
  assert result.stdout.count("started ") == len(names)
  assert len(list(folder.glob("*/summary.json"))) == len(names)


def test_a_preset_starts(tmp_path):
  assert_start(["scaffold_mime/quadratic/quadratic_k2_scaffold"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("group", STARTS, ids=str)
def test_presets_of_every_kind_start(group, tmp_path):
  assert_start(STARTS[group], tmp_path)
