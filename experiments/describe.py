#!/usr/bin/env python3
"""Prints what an algorithm is, keeps and sends on the model of a task.

python experiments/describe.py scaffold --task=digits
python experiments/describe.py --table           # the table of all algorithms in docs/algorithms.md
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

# This folder's own modules must not be taken for libraries of the same name.
if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
  del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import tasks
from tff_momentum import describe, user_code

if TYPE_CHECKING:
  from tasks.task import Task


def main(argv: Sequence[str]) -> int:
  """Checks the names before it loads TensorFlow; prints the description or the table.

  Returns:
    The exit code: 0, or 2 for a mistake, which is explained on stderr in one sentence.
  """
  parser = describe.DescribeParser(prog="describe.py", description=__doc__.splitlines()[0])
  describe.add_arguments(parser)
  parser.add_argument(
    "--task", default="digits", help="the task whose model gives the sizes (digits)"
  )
  parser.add_argument(
    "--table", action="store_true", help="print all algorithms as a Markdown table"
  )
  try:
    arguments = parser.parse_args(argv)
    if arguments.task not in tasks.TASKS and not user_code.is_user_code(arguments.task):
      known = ", ".join(sorted(tasks.TASKS))
      raise describe.DescribeError(
        f"expected the name of a task; found {arguments.task!r}. There are {known}."
      )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if arguments.table:
      print(describe.table(describe.linear_model()))
      return 0
    describe.check_algorithm(arguments.algorithm)
    given = describe.hyperparameters(arguments.algorithm, arguments.set)
    task = _load(arguments.task)
    cohort = min(task.defaults.clients_per_round, len(task.clients))
    examples = {
      **describe.EXAMPLES,
      "client_learning_rate": task.defaults.client_learning_rate,
      "num_clients": len(task.clients),
      "participation": cohort / len(task.clients),
      "total_examples": task.total_examples,
    }
    name = f"the model of {task.name}"
    print(describe.describe(arguments.algorithm, given, task.model, name, examples))
  except describe.DescribeError as error:
    print(f"describe: {error}", file=sys.stderr)
    return 2
  return 0


def _load(name: str) -> "Task":
  """Loads the task for the sake of its model, which all our tasks have for synthetic data too."""
  try:
    options = {} if user_code.is_user_code(name) else tasks.info(name).synthetic_options
    return tasks.load(name, seed=1, **options)
  except (ValueError, OSError) as error:
    raise describe.DescribeError(str(error)) from error


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
