"""The names that `--task` and `--algo` take: those of the registries, and functions of the user's own."""

import tasks
from experiments.cli.errors import as_user_errors, check_name
from tff_momentum import registry, user_code


def check_task(name: str | None, see: str = "--list") -> None:
  """Raises `UserError` unless `--task` names a task; imports the module of a task of the user's own.

  Args:
    name: the flag's value; None if it is missing.
    see: what shows the valid names.
  """
  if name is not None and user_code.is_user_code(name):
    with as_user_errors(user_code.UserCodeError):
      tasks.info(name)
  else:
    check_name("--task", name, tasks.TASKS, prefixes=(tasks.TFDS_PREFIX,), see=see)


def check_algo(name: str | None, see: str = "--list") -> None:
  """Raises `UserError` unless `--algo` names an algorithm; imports the module of one of the user's own.

  Args:
    name: the flag's value; None if it is missing.
    see: what shows the valid names.
  """
  if name is not None and user_code.is_user_code(name):
    with as_user_errors(user_code.UserCodeError):
      registry.info(name)
  else:
    check_name("--algo", name, [*registry.ALGORITHMS, *registry.REFERENCE_LINES], see=see)
