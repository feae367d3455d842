"""A sweep's progress: a live table on a terminal, else one line for each run that ends."""

import sys
import time
from collections.abc import Mapping, Sequence

from experiments.runs import final_value
from experiments.sweeps import tables
from experiments.sweeps.outcomes import Outcome
from experiments.sweeps.search_space import SweepRun

SHOWN = 12  # rows of the live table
REDRAW_SECONDS = 1.0


class ProgressTable:
  """Prints the best configurations so far and the time left."""

  def __init__(self, title: str, runs: Sequence[SweepRun], *, quiet: bool):
    self._title = title
    self._runs = runs
    self._quiet = quiet
    self._live = sys.stdout.isatty() and not quiet
    self._height = 0
    self._drawn = 0.0
    self._durations: list[float] = []

  def record(self, name: str, outcome: Outcome, seconds: float) -> None:
    """Records a run that ended during this sweep."""
    self._durations.append(seconds)
    if not self._live and not self._quiet:
      score = "" if outcome.score is None else f", final {outcome.metric} {outcome.score:.4f}"
      reason = f": {outcome.reason}" if outcome.reason else ""
      print(f"{name}: {outcome.state} after {seconds:.0f} s{score}{reason}", flush=True)

  def draw(
    self, outcomes: Mapping[str, Outcome], running: Sequence[str], left: int, jobs: int
  ) -> None:
    """Redraws the table, at most once a second."""
    if not self._live or time.monotonic() - self._drawn < REDRAW_SECONDS:
      return
    self._drawn = time.monotonic()
    self._erase()
    text = [f"{self._title}: {self._status(outcomes, running, left, jobs)}"]
    for result in tables.configuration_results(self._runs, outcomes)[:SHOWN]:
      text.append(f"  {result.text:>18}  {result.label} {result.values_text}"[:110])
    print("\n".join(text), flush=True)
    self._height = len(text)

  def finish(self, outcomes: Mapping[str, Outcome]) -> None:
    """Replaces the live table with the final one."""
    self._erase()
    if not self._quiet:
      results = tables.configuration_results(self._runs, outcomes)
      metric = next((result.metric for result in results if result.metric), "")
      if metric:
        print(f"Final {metric}: {final_value.DESCRIPTION}.")
      width = max(len(result.label) for result in results)
      for result in results:
        print(
          f"  {result.text:>18}  {result.label:{width}}  {result.values_text}  ({result.states_text})"
        )

  def _erase(self) -> None:
    if self._height:
      print(f"\x1b[{self._height}F\x1b[J", end="")
    self._height = 0

  def _status(
    self, outcomes: Mapping[str, Outcome], running: Sequence[str], left: int, jobs: int
  ) -> str:
    ended = sum(o.settled or o.state == "failed" for o in outcomes.values())
    status = f"{ended} of {len(outcomes)} runs ended, {len(running)} running, {left} waiting"
    if self._durations:
      mean = sum(self._durations) / len(self._durations)
      status += f", about {_duration(mean * (left + len(running) / 2) / jobs)} left"
    return status


def _duration(seconds: float) -> str:
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
