"""Parses grids: `beta=0.9,0.99`, `scaffold:option=I,II` for one algorithm, `task:alpha=0,1` for the task.

The name is a hyperparameter of the algorithm, a flag of `run.py`, or an option of the task. A grid without a
scope applies to every algorithm that has the name.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from absl import flags

import tasks
from experiments.cli import assignments, errors
from experiments.cli import flags as cli_flags
from experiments.cli.errors import UserError
from experiments.cli.flags import ALGORITHM_FLAGS, TASK_FLAGS

# The scope of a task's option, for a name that is also a hyperparameter of the algorithm.
TASK = "task"
# Flags of `run.py` that do not affect the result, or that a sweep sets itself.
NOT_FOR_GRIDS = ("task", "algo", "set", "task_set", "list", "list_presets", "help",
                 "root_output_dir", "runtime",
                 "experiment_name", "devices", "max_clients_in_flight", "quiet", "preset", "scale",
                 "data_dir", "rounds_per_checkpoint", "keep_checkpoints", "client_states",
                 "restart", "profile", "track", "lean", "flagfile", "tune_on")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Grid:
  """A name, its values as text, and its scope: an algorithm, `task`, or None for all."""

  scope: str | None
  name: str
  values: tuple[str, ...]

  def __str__(self) -> str:
    return f"{self.scope + ':' if self.scope else ''}{self.name}={','.join(self.values)}"


def read(text: str, flag: str = "--grid") -> Grid:
  """Parses one grid; raises `UserError` if it is invalid."""
  left, equals, right = text.partition("=")
  scope, colon, name = left.rpartition(":")
  values = split(right)
  if not equals or not name.isidentifier() or not all(values) or (colon and not scope):
    raise UserError(
      f"{flag} takes name=value,value, as in {flag} beta=0.9,0.99, or scaffold:option=I,II for one "
      f"algorithm; found {text!r}."
    )
  if len(set(values)) < len(values):
    raise UserError(f"{flag} {name} repeats a value: {right}; give each value once.")
  if name == "seed":
    raise UserError(f"{flag} does not take seeds; use --seeds=1,2,3.")
  return Grid(scope or None, name, values)


def split(text: str) -> tuple[str, ...]:
  """Splits at commas outside brackets: `sgdm(0.9, dampened=True),sgd` has two values."""
  values, depth = [""], 0
  for character in text:
    depth += (character in "([{") - (character in ")]}")
    if character == "," and depth == 0:
      values.append("")
    else:
      values[-1] += character
  return tuple(value.strip() for value in values)


def flag_of(grid: Grid, task: str, algo: str) -> str | None:
  """The flag of `run.py` that takes the grid's values, up to the value, as in `--set=beta=`.

  Returns:
    The flag, or None if the grid does not apply to this algorithm.

  Raises:
    UserError: if the grid's scope is this task or algorithm, and it has no such name.
  """
  options, settable = tasks.info(task).options, assignments.settable(algo)
  if grid.scope not in (None, TASK, algo):
    return None
  if grid.scope == TASK:
    if grid.name not in options:
      raise errors.unknown_name(f"the task {task}", grid.name, options)
    return _task_flag(grid.name)
  is_hyperparameter = grid.name in settable
  is_option = grid.name in options
  if is_hyperparameter and is_option and grid.scope is None:
    raise UserError(
      f"both the task {task} and the algorithm {algo} have {grid.name}; write {TASK}:{grid.name}=... or "
      f"{algo}:{grid.name}=..."
    )
  if is_hyperparameter:
    return f"--{grid.name}=" if grid.name in ALGORITHM_FLAGS else f"--set={grid.name}="
  if grid.scope == algo:
    raise errors.unknown_name(f"the algorithm {algo}", grid.name, settable)
  if is_option:
    return _task_flag(grid.name)
  return f"--{grid.name}=" if grid.name in run_flags() else None


def run_flags() -> list[str]:
  """The flags of `run.py` that a grid may vary for any task and algorithm."""
  defined = flags.FLAGS.flags_by_module_dict()[cli_flags.__name__]
  own = (*NOT_FOR_GRIDS, *TASK_FLAGS, *ALGORITHM_FLAGS, "seed")
  return [flag.name for flag in defined if flag.name not in own]


def check_used(grids: Sequence[Grid], pairs: Iterable[tuple[str, str]]) -> None:
  """Raises `UserError` for a grid that applies to no (task, algorithm)."""
  pairs = list(pairs)
  for grid in grids:
    if not any(flag_of(grid, task, algo) for task, algo in pairs):
      algos = sorted({algo for _, algo in pairs})
      if grid.scope not in (None, TASK):
        raise UserError(f"--grid {grid} is for {grid.scope}, which is not in the sweep; it has "
                        f"{', '.join(algos)}.")  # fmt: skip
      known = {name for algo in algos for name in assignments.settable(algo)}
      hint = errors.suggestions(grid.name, {*known, *run_flags()})
      own = ", ".join(sorted(known))
      raise UserError(
        f"--grid {grid} varies nothing: neither {' nor '.join(algos)} nor run.py has {grid.name!r}{hint}; "
        f"the hyperparameters are {own}."
      )


def _task_flag(name: str) -> str:
  return f"--{name}=" if name in TASK_FLAGS else f"--task_set={name}="
