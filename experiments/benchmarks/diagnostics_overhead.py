"""Times rounds with and without diagnostics.

    python -m experiments.benchmarks.diagnostics_overhead --task=digits --algo=fedavgm --blocks=6

A block is one diagnostics period of rounds, evaluated and written as run.py does; diagnostics are measured in
its last round. The two runs alternate block by block, so that other load on the machine affects both. The
first block of each, which compiles, is not counted.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main(argv: list[str]) -> int:
  """Prints the milliseconds per round with and without diagnostics, and their ratio."""
  parser = argparse.ArgumentParser(
    prog="diagnostics_overhead",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    "--task",
    default="digits",
    help="the task, with synthetic data unless its data is bundled (digits)",
  )
  parser.add_argument("--algo", default="fedavgm", help="the algorithm (fedavgm)")
  parser.add_argument("--diagnostics", default="drift,cosine,alpha,gradient,variance,flops",
                      help="the diagnostics to measure")  # fmt: skip
  parser.add_argument("--diagnostics_period", type=int, default=10, help="rounds per block (10)")
  parser.add_argument("--blocks", type=int, default=6, help="timed blocks of each run (6)")
  arguments = parser.parse_args(argv)

  import tasks
  from experiments.runs import folder as output
  from experiments.runs.columns import header
  from experiments.training import build
  from experiments.training.hooks.metrics_csv import MetricsCsv
  from experiments.training.hooks.tensorboard import TensorBoard
  from tff_momentum.client import LocalWork
  from tff_momentum.diagnostics.measure import Measure
  from tff_momentum.processes.process import build_process
  from tff_momentum.runtime import set_execution_context
  from tff_momentum.simulation import loop

  set_execution_context("inprocess")
  task = tasks.load(arguments.task, seed=1, **tasks.info(arguments.task).synthetic_options)
  size, period = task.defaults.clients_per_round, arguments.diagnostics_period
  algorithm = build.build_algorithm(arguments.algo, {}, task, size)
  work = LocalWork(epochs=task.defaults.client_epochs_per_round)
  process = build_process(algorithm, task.model, work=work)
  measure = Measure(process, task.clients, arguments.diagnostics.split(","), period=period, seed=1)
  runs = [
    loop.rounds(
      process,
      task,
      total_rounds=period * (arguments.blocks + 1),
      clients_per_round=size,
      client_batch_size=task.defaults.client_batch_size,
      seed=1,
      measure=chosen,
    )
    for chosen in (None, measure)
  ]
  metrics = list(process.next.type_signature.result.metrics.member.train._asdict())
  seconds = [0.0, 0.0]
  with tempfile.TemporaryDirectory() as root:
    hooks = []
    for name, columns in (("off", []), ("on", measure.columns)):
      config = {"experiment_name": name, "hyperparameters": {}}
      folder = output.RunFolder.open(root, config)
      folder.start_metrics(header(metrics, diagnostics=columns), 0)
      hooks.append((MetricsCsv(folder), TensorBoard(folder.path / "tensorboard", config)))
    for block in range(arguments.blocks + 1):
      for number, rounds in enumerate(runs):
        started = time.perf_counter()
        for finished in itertools.islice(rounds, period):
          for hook in hooks[number]:
            hook.after_round(finished)
        seconds[number] += time.perf_counter() - started if block else 0.0
  off, on = (1000 * spent / (period * arguments.blocks) for spent in seconds)
  print(f"off: {off:.1f} ms per round; on: {on:.1f} ms per round; ratio {on / off:.2f}")
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
