#!/usr/bin/env python3
"""Times a round of federated averaging against a hand-written TensorFlow loop, on six work items.

    python experiments/benchmark.py --items=A,B --rounds=5

Each competitor runs in its own process. They take turns round by round, and the table shows the median of the
ratios within a turn, so that noise on the machine affects all competitors equally. `check` is the distance
that the weights moved; it is equal if the competitors did the same work.

    python experiments/benchmark.py --algos=mimelite,mime,scaffold,ghbm --items=B

compares algorithms with fedavg.

    python experiments/benchmark.py --through=run --limit

compares the bare process with the trainer of run.py, which also shuffles the data, keeps the clients' states
and writes the metrics; the model is not evaluated. `--limit` adds the time of the same number of
floating-point operations as float32 matrix products on all cores, and each competitor's ratio to it.

`--item=B --rounds=7 --json=FILE --algorithm=fedavg` runs this library alone on one item and writes the result
as JSON, for drivers that compare several libraries; `--through=run` works there, too. `python -m
experiments.benchmarks.diagnostics_overhead` times rounds with and without diagnostics.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

START = time.time()
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = ROOT

ITEM_NAMES = ("A", "B", "C", "D", "E", "F")
RUNTIMES = ("inprocess", "ray", "tff")


def main(argv: list[str]) -> int:
  """Runs the benchmark and prints a table for each item."""
  from experiments.cli import errors
  from experiments.cli.errors import UserError
  from tff_momentum.registry import ALGORITHMS

  arguments = parse(argv)
  try:
    for name in (*(arguments.algos or ()), arguments.algorithm):
      errors.check_name("--algos", name, ALGORITHMS, see="run.py --list")
    if arguments.json and not os.path.isdir(os.path.dirname(os.path.abspath(arguments.json))):
      raise UserError(f"--json must name a file in an existing folder; found {arguments.json!r}.")
  except UserError as error:
    errors.fail(str(error))
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  if arguments.item:
    return run_single(arguments)
  os.chdir(ROOT)
  for item in arguments.items:
    compare(item, competitor_names(arguments), arguments.rounds, arguments.warm_up)
  return 0


def competitor_names(arguments: argparse.Namespace) -> list[str]:
  """The names of the competitors, as `competitors.build` takes them; ratios are to the first one."""
  if arguments.algos:
    ours = [f"inprocess/{name}" for name in ("fedavg", *arguments.algos)]
  else:
    ours = list(arguments.runtimes)
  if arguments.through == "run":
    names = [name for bare in ours for name in (bare, f"run:{bare}")]
  elif arguments.algos:
    names = ours
  else:
    names = ["loop", *ours, *(["stock"] if arguments.stock else [])]
  if arguments.limit:
    names += dict.fromkeys(_limit_of(name) for name in ours)
  return names


def _limit_of(name: str) -> str:
  """The limit that a competitor is compared with: that of its algorithm."""
  _, slash, algorithm = name.partition("/")
  return f"limit{slash}{algorithm}"


def parse(argv: list[str]) -> argparse.Namespace:
  """Parses the command line."""
  from experiments.cli.errors import OneSentenceParser

  parser = OneSentenceParser(
    prog="benchmark.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  add = parser.add_argument
  add(
    "--items",
    type=_names(ITEM_NAMES),
    default=list(ITEM_NAMES),
    help="work items among A,B,C,D,E,F (all)",
  )
  add("--rounds", type=int, default=5, help="number of timed rounds (5)")
  add(
    "--warm_up",
    type=int,
    default=2,
    help="number of rounds before the timed ones, including the cold first round (2)",
  )
  add(
    "--runtimes",
    type=_names(RUNTIMES),
    default=["inprocess"],
    help="runtimes among inprocess,ray,tff (inprocess)",
  )
  add("--stock", action="store_true", help="also time stock TFF's FedAvg on its worker (slow)")
  add("--algos", type=lambda text: text.split(","), help="algorithms to time against fedavg")
  add(
    "--through",
    choices=("process", "run"),
    default="process",
    help="run: also time the trainer of run.py; ratios are then to the bare process (process)",
  )
  add("--limit", action="store_true", help="also time the item's operations as matrix products")
  add("--item", choices=ITEM_NAMES, help="single run: the work item")
  add("--json", help="single run: the file to write")
  add("--algorithm", default="fedavg", help="single run: the algorithm (fedavg)")
  arguments = parser.parse_args(argv)
  if bool(arguments.item) != bool(arguments.json):
    parser.error("--item and --json must be given together")
  if arguments.rounds < 1 or arguments.warm_up < 1:
    parser.error(
      f"--rounds and --warm_up must be at least 1; found {min(arguments.rounds, arguments.warm_up)}"
    )
  return arguments


def _names(known):
  def split(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(known):
      raise argparse.ArgumentTypeError(f"expected names among {','.join(known)}, found {text!r}")
    return names

  return split


def compare(item: str, names: list[str], rounds: int, warm_up: int) -> None:
  """Times the competitors on an item and prints the table, with ratios to the first competitor."""
  from experiments.benchmarks import worker

  with tempfile.TemporaryFile("w+") as log:
    try:
      with worker.workers(names, item, log) as started:
        for _ in range(warm_up - 1):
          _turn(started)
        turns = [_turn(started) for _ in range(rounds)]
        states = [w.ask("state") for w in started]
        costs = started[0].ask("costs") if names[0].endswith("/fedavg") else None
    except RuntimeError:
      log.seek(0)
      sys.stderr.write(log.read()[-4000:])
      raise
  print(table(item, names, turns, states, costs), flush=True)


def _turn(started) -> list[dict[str, float]]:
  return [worker.ask("round") for worker in started]


def table(
  item: str, names: list[str], turns: list, states: list, costs: dict[str, float] | None = None
) -> str:
  """One line per competitor with medians over the turns; with `costs`, also the expected ratio."""
  from experiments.benchmarks import expected_cost, work_items

  widths = {
    "s/round": 8,
    "ratio": 6,
    "expected": 8,
    "x limit": 8,
    "cpu s": 7,
    "cold s": 7,
    "peak MB": 8,
  }
  columns = " ".join(f"{title:>{width}}" for title, width in widths.items())
  lines = [f"{item:22} {columns}  check"]
  for i, (name, state) in enumerate(zip(names, states, strict=True)):
    wall = statistics.median(turn[i]["wall"] for turn in turns)
    cpu = statistics.median(turn[i]["cpu"] for turn in turns)
    ratio = statistics.median(turn[i]["wall"] / turn[0]["wall"] for turn in turns)
    factor = (
      expected_cost.factor(name.partition("/")[2], work_items.ITEMS[item], costs) if costs else None
    )
    limit = None
    if _limit_of(name) in names:
      floor = names.index(_limit_of(name))
      limit = statistics.median(turn[i]["wall"] / turn[floor]["wall"] for turn in turns)
    lines.append(
      f"{name:22} {wall:8.3f} {ratio:6.2f} {_or_empty(factor):>8} {_or_empty(limit):>8} {cpu:7.3f} "
      f"{state['cold']:7.1f} {state['peak_mb']:8.0f}  {state['check']:.6g}"
    )
  if costs:
    lines.append(
      f"expected ratios from {1e6 * costs['gradient']:.0f} us per gradient and {1e6 * costs['pass']:.0f} us "
      "per pass over the weights"
    )
  return "\n".join(lines)


def _or_empty(number: float | None) -> str:
  return "" if number is None else f"{number:.2f}"


def run_single(arguments: argparse.Namespace) -> int:
  """Runs this library on one item and writes the result as JSON."""
  import resource

  from tff_momentum import garbage

  with garbage.imports_to_keep():
    from experiments.benchmarks import competitors, work_items

  start = float(os.environ.get("BENCH_T0", START))
  item = work_items.ITEMS[arguments.item]
  # Other libraries call FedAvg with server momentum, which is the work of all items, FedAvg.
  algorithm = {"fedavg": "fedavgm"}.get(arguments.algorithm, arguments.algorithm)
  way = f"run:{arguments.runtimes[0]}" if arguments.through == "run" else arguments.runtimes[0]
  ours = competitors.build(f"{way}/{algorithm}", item)
  seconds, cold = [], 0.0
  for _ in range(arguments.rounds):
    begin = time.perf_counter()
    ours.round()
    seconds.append(time.perf_counter() - begin)
    cold = cold or time.time() - start
  result = {
    "item": arguments.item,
    "algorithm": arguments.algorithm,
    "cold_s": cold,
    "rounds_s": seconds,
    "check": work_items.distance(ours.weights(), ours.initial),
    "params": sum(w.size for w in ours.initial),
    "self_maxrss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
  }
  with open(arguments.json, "w") as file:
    json.dump(result, file)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
