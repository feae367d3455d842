"""A competitor in its own process, which runs a round for each line that the driver writes.

Competitors have their own processes because they need different numbers of threads. The driver requests
single rounds so that competitors take turns, and noise on the machine affects all equally.
"""

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO

from tff_momentum import garbage


class Worker:
  """The driver's handle of a worker process."""

  def __init__(self, name: str, item: str, log: IO[str]):
    self.name = name
    environment = dict(os.environ, TFM_BENCHMARK_START=str(time.time()))
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    self._process = subprocess.Popen(
      [sys.executable, "-m", __name__, name, item],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=log,
      text=True,
      env=environment,
    )

  def ask(self, what: str) -> dict[str, float]:
    """Sends a request and waits for the answer."""
    assert self._process.stdin is not None
    assert self._process.stdout is not None
    try:
      self._process.stdin.write(what + "\n")
      self._process.stdin.flush()
      answer = self._process.stdout.readline()
    except BrokenPipeError:
      answer = ""
    if not answer:
      raise RuntimeError(
        f"Expected an answer from the competitor {self.name}; its process ended. See its log."
      )
    return json.loads(answer)

  def end(self) -> None:
    """Ends the process; kills it if it does not exit."""
    assert self._process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
      self._process.stdin.close()
    try:
      self._process.wait(20)
    except subprocess.TimeoutExpired:
      self._process.kill()
      self._process.wait()


@contextlib.contextmanager
def workers(names: list[str], item: str, log: IO[str]) -> Iterator[list[Worker]]:
  """Starts a worker for each name and runs its first round, one after the other; ends all on exit."""
  started: list[Worker] = []
  try:
    for name in names:
      started.append(Worker(name, item, log))
      started[-1].ask("round")
    yield started
  finally:
    for worker in started:
      worker.end()


def main(name: str, item_name: str) -> None:
  """The worker process: answers `round`, `costs` and `state` with one line of JSON each."""
  answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
  os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries is not an answer
  with garbage.imports_to_keep():
    from experiments.benchmarks import competitors, work_items

  competitor = competitors.build(name, work_items.ITEMS[item_name])
  since_start = None
  for line in sys.stdin:
    if line.strip() == "round":
      wall, cpu = time.perf_counter(), time.process_time()
      competitor.round()
      answer = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
      since_start = since_start or time.time() - float(os.environ["TFM_BENCHMARK_START"])
    elif line.strip() == "costs":
      answer = competitors.costs(work_items.ITEMS[item_name])
    else:
      peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
      check = work_items.distance(competitor.weights(), competitor.initial)
      answer = {"check": check, "peak_mb": peak, "cold": since_start or 0.0}
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
  main(*sys.argv[1:])
