"""Prints what an algorithm remembers and sends, read off its compiled types.

    python -m tff_momentum.describe scaffold --task=digits
    python -m tff_momentum.describe --table          # the table of docs/algorithms.md

Run from the project's root, where the tasks are.
"""

import argparse
import os
import sys
from typing import Any


def main(argv: list[str]) -> int:
  """Reads the names, checks them before TensorFlow is imported, and prints the description."""
  from experiments.cli import assignments, errors
  from tff_momentum.registry import ALGORITHMS

  parser = argparse.ArgumentParser(
    prog="python -m tff_momentum.describe", description=__doc__.splitlines()[0]
  )
  parser.add_argument("algo", nargs="?", help="an algorithm")
  parser.add_argument("--table", action="store_true", help="all algorithms, as a Markdown table")
  parser.add_argument("--task", default="digits", help="whose model gives the sizes (digits)")
  parser.add_argument("--set", action="append", default=[], help="a hyperparameter, name=value")
  arguments = parser.parse_args(argv)
  try:
    import tasks

    if not arguments.table:
      errors.check_name("--algo", arguments.algo, ALGORITHMS)
    errors.check_name("--task", arguments.task, tasks.TASKS)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from experiments.training import build

    if arguments.table:
      print(table(tasks.loader(arguments.task)(seed=1)))
      return 0
    given = assignments.read_assignments("set", arguments.set)
    hyperparameters = assignments.hyperparameters(arguments.algo, given)
    with errors.as_user_errors(ValueError):
      build.check_values(arguments.algo, hyperparameters)
    task = tasks.loader(arguments.task)(seed=1)
    print(describe(arguments.algo, hyperparameters, task))
  except errors.UserError as error:
    print(f"describe: {error}", file=sys.stderr)
    return 2
  return 0


def describe(algo: str, hyperparameters: dict[str, Any], task: Any) -> str:
  """The algorithm's types, and its bytes against FedAvg's."""
  process = _process(algo, hyperparameters, task)
  model_bytes = sum(w.nbytes for w in task.model.initial_weights)
  lines = [
    f"{algo} on {task.name}: {task.model.num_parameters:,} parameters, {model_bytes:,} bytes a model",
    "",
    f"server state   {process.server_state_type}",
    f"client state   {process.client_state_type}",
  ]
  numbered = [("", e) for e in process.exchanges]
  numbered += [(" (round 0 only)", e) for e in process.first_round_exchanges]
  for number, (note, exchange) in enumerate(numbered, 1):
    lines += [
      f"exchange {number}{note}",
      f"  message      {exchange.message}",
      f"  upload       {exchange.upload}",
    ]
  down, up = process.bytes_down(1), process.bytes_up(1)
  lines += [
    "",
    f"per client and round: {down:,} bytes down ({down / model_bytes:.3g} models), "
    f"{up:,} bytes up ({up / model_bytes:.3g} models)",
    f"against FedAvg: {(down + up) / (2 * model_bytes):.3g}×",
  ]
  return "\n".join(lines)


def table(task: Any) -> str:
  """All algorithms in a Markdown table, bytes and client states counted in models."""
  from tff_momentum.registry import ALGORITHMS

  model_bytes = sum(w.nbytes for w in task.model.initial_weights)
  lines = ["| name | from | down × up | state | rule | file |", "|---|---|---|---|---|---|"]
  for name, entry in ALGORITHMS.items():
    process = _process(name, {}, task)
    down, up, kept = (
      f"{count / model_bytes:.2g}"
      for count in (process.bytes_down(1), process.bytes_up(1), process.client_state_bytes)
    )
    path = f"../tff_momentum/algorithms/{entry.module}.py"
    lines.append(
      f"| `{name}` | {entry.source} | {down} × {up} | {'–' if kept == '0' else kept} | {entry.rule} "
      f"| [{entry.module}.py]({path}) |"
    )
  return "\n".join(lines)


def _process(algo: str, hyperparameters: dict[str, Any], task: Any) -> Any:
  from experiments.training import build
  from tff_momentum.processes.process import build_process

  cohort = min(task.defaults.clients_per_round, len(task.clients))
  return build_process(build.build_algorithm(algo, hyperparameters, task, cohort), task.model)


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
