"""Prints what an algorithm remembers and sends, read off its compiled types.

    python -m tff_momentum.describe scaffold --task=digits

Run from the project's root, where the tasks are.
"""

import argparse
import os
import sys
from typing import Any


def main(argv: list[str]) -> int:
  """Reads the names, checks them before TensorFlow is imported, and prints the description."""
  from experiments import settings
  from tff_momentum.catalogue import ALGORITHMS

  parser = argparse.ArgumentParser(
    prog="python -m tff_momentum.describe", description=__doc__.splitlines()[0]
  )
  parser.add_argument("algo", help="an algorithm")
  parser.add_argument("--task", default="digits", help="whose model gives the sizes (digits)")
  parser.add_argument("--set", action="append", default=[], help="a hyperparameter, name=value")
  arguments = parser.parse_args(argv)
  try:
    import tasks

    settings.check_name("--algo", arguments.algo, ALGORITHMS)
    settings.check_name("--task", arguments.task, tasks.TASKS)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from experiments import experiment

    hyperparameters = experiment.hyperparameters(
      arguments.algo, settings.read_assignments("set", arguments.set)
    )
    task = tasks.loader(arguments.task)(seed=1)
    print(describe(arguments.algo, hyperparameters, task))
  except settings.UserError as error:
    print(f"describe: {error}", file=sys.stderr)
    return 2
  return 0


def describe(algo: str, hyperparameters: dict[str, Any], task: Any) -> str:
  """The algorithm's types, and its bytes against FedAvg's."""
  from experiments import experiment
  from tff_momentum import process as process_lib

  cohort = min(task.defaults.clients_per_round, len(task.clients))
  process = process_lib.build_process(
    experiment.build_algorithm(algo, hyperparameters, task, cohort), task.model
  )
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


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
