"""`--set name=value` and `--task_set name=value`: hyperparameters and task options, checked by name.

The registries of algorithms and tasks are literals, so that no name needs TensorFlow to be checked.
"""

import ast
from collections.abc import Iterable, Mapping

import tasks
from experiments.cli.errors import UserError, as_user_errors, unknown_name
from tff_momentum import ranges, registry
from tff_momentum.registry import REQUIRED

# Arguments of builders that follow from the task and the cohort; users cannot set them.
FROM_TASK = ("num_clients", "total_examples", "participation", "max_staleness")


def read_assignments(flag: str, texts: Iterable[str]) -> dict[str, str]:
  """Reads `name=value` texts; raises `UserError` for other texts and for a name that is given twice."""
  found: dict[str, str] = {}
  for text in texts:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value:
      raise UserError(f"--{flag} takes name=value, as in --{flag} beta=0.9; found {text!r}.")
    if name in found:
      raise UserError(
        f"--{flag} {name} is given twice: {found[name]!r} and {value!r}; give it once."
      )
    found[name] = value
  return found


def settable(algo: str) -> dict[str, object]:
  """The hyperparameters of an algorithm that users can set, with their defaults or `REQUIRED`."""
  known = registry.info(algo).hyperparameters
  return {name: default for name, default in known.items() if name not in FROM_TASK}


def hyperparameters(algo: str, given: Mapping[str, object]) -> dict[str, object]:
  """Reads hyperparameters; raises `UserError` for unknown names, values out of range and missing ones.

  Args:
    algo: the algorithm.
    given: the values by name, as texts or literals. Every task has a client learning rate, which need not
      be given.
  """
  known = settable(algo)
  found = {name: literal(value) for name, value in given.items()}
  for name, value in found.items():
    if name not in known:
      raise unknown_name(f"the algorithm {algo}", name, known)
    if isinstance(known[name], bool) and not isinstance(value, bool):
      raise UserError(f"{name} must be true or false; found {value!r}.")
    with as_user_errors(ValueError):
      ranges.check(algo, name, value)
  for name, default in known.items():
    if default is REQUIRED and name not in (*found, "client_learning_rate"):
      raise UserError(f"the algorithm {algo} needs --set {name}=..., which has no default.")
  return found


def task_options(
  task: str, given: Mapping[str, object], texts: Mapping[str, str]
) -> dict[str, object]:
  """Reads the options of a task; raises `UserError` for unknown names.

  Args:
    task: the task.
    given: the values of flags such as `--alpha`, by name.
    texts: the values of `--task_set`, by name; they override the flags.
  """
  known = tasks.info(task).options
  for name in (*given, *texts):
    if name not in known:
      raise unknown_name(f"the task {task}", name, known)
  for name, default in known.items():
    if default is REQUIRED and name not in (*given, *texts):
      raise UserError(f"the task {task} needs --task_set {name}=..., which has no default.")
  return {**given, **{name: literal(text) for name, text in texts.items()}}


def literal(text: object) -> object:
  """The number, list or truth value that a text spells, or the text itself.

  >>> literal("0.9"), literal("true"), literal("sgdm(0.9)")
  (0.9, True, 'sgdm(0.9)')
  """
  if not isinstance(text, str):
    return text
  if text.lower() in ("true", "false"):
    return text.lower() == "true"
  try:
    return ast.literal_eval(text)
  except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
    return text
