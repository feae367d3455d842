"""The live table: best so far, what is left and for how long. Without a terminal, a line for each run."""

import sys
import time
from collections.abc import Mapping, Sequence

from experiments.sweeps import tables
from experiments.sweeps.outcomes import Outcome
from experiments.sweeps.search_space import SweepRun

SHOWN = 12  # configurations in the live table
REDRAW_SECONDS = 1.0


class ProgressTable:
  """Shows a sweep's progress on standard output."""

  def __init__(self, title: str, runs: Sequence[SweepRun], *, quiet: bool):
    self._title = title
    self._runs = runs
    self._quiet = quiet
    self._live = sys.stdout.isatty() and not quiet
    self._height = 0
    self._drawn = 0.0
    self._durations: list[float] = []

  def record(self, name: str, outcome: Outcome, seconds: float) -> None:
    """Notes a run that ended in this sweep."""
    self._durations.append(seconds)
    if not self._live and not self._quiet:
      score = "" if outcome.score is None else f", {outcome.metric} {outcome.score:.4f}"
      reason = f": {outcome.reason}" if outcome.reason else ""
      print(f"{name}: {outcome.state} after {seconds:.0f} s{score}{reason}", flush=True)

  def draw(
    self, outcomes: Mapping[str, Outcome], running: Sequence[str], left: int, jobs: int
  ) -> None:
    """Redraws the table, not more often than once a second."""
    if not self._live or time.monotonic() - self._drawn < REDRAW_SECONDS:
      return
    self._drawn = time.monotonic()
    self._erase()
    text = [f"{self._title}: {self._status(outcomes, running, left, jobs)}"]
    for line in tables.configuration_results(self._runs, outcomes)[:SHOWN]:
      values = ", ".join(f"{name}={value}" for name, value in line.values)
      text.append(f"  {line.result:>18}  {line.label} {values}"[:110])
    print("\n".join(text), flush=True)
    self._height = len(text)

  def finish(self, outcomes: Mapping[str, Outcome]) -> None:
    """Replaces the live table by the final one."""
    self._erase()
    if not self._quiet:
      width = max(len(line.label) for line in tables.configuration_results(self._runs, outcomes))
      for line in tables.configuration_results(self._runs, outcomes):
        values = ", ".join(f"{name}={value}" for name, value in line.values)
        states = ", ".join(f"{count} {state}" for state, count in sorted(line.states.items()))
        print(f"  {line.result:>18}  {line.label:{width}}  {values}  ({states})")

  def _erase(self) -> None:
    if self._height:
      print(f"\x1b[{self._height}F\x1b[J", end="")
    self._height = 0

  def _status(
    self, outcomes: Mapping[str, Outcome], running: Sequence[str], left: int, jobs: int
  ) -> str:
    ended = sum(o.settled or o.state == "failed" for o in outcomes.values())
    status = f"{ended} of {len(outcomes)} runs ended, {len(running)} running, {left} to go"
    if self._durations:
      mean = sum(self._durations) / len(self._durations)
      status += f", about {_span(mean * (left + len(running) / 2) / jobs)} left"
    return status


def _span(seconds: float) -> str:
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
