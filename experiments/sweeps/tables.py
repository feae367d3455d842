"""A sweep's results: sweep.json, sweep.csv with a row for each run, sweep.md with a row per configuration."""

import csv
import io
import json
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.runs import folder as output
from experiments.runs import metric as metrics
from experiments.sweeps.outcomes import Outcome
from experiments.sweeps.search_space import SweepRun


class ConfigurationResult(NamedTuple):
  """A configuration's mean and standard deviation over seeds, and the number of seeds by state.

  Attributes:
    label: the label of its runs.
    values: the grid point.
    metric: the column that ranks configurations.
    mean: the mean of the runs' final values; None if one diverged.
    deviation: their standard deviation; None for one seed.
    states: the number of seeds by state.
    test: the mean of the final values on the test data; None if one diverged.
  """

  label: str
  values: tuple[tuple[str, str], ...]
  metric: str
  mean: float | None
  deviation: float | None
  states: Mapping[str, int]
  test: float | None = None

  @property
  def rank(self) -> float:
    """A sort key: the best first; diverged, failed and pruned configurations last."""
    if self.mean is None or self.states.get("pruned"):
      return math.inf
    return -metrics.named(self.metric).sign * self.mean

  @property
  def text(self) -> str:
    """Mean ± standard deviation; × if a seed diverged."""
    if self.mean is None:
      return "×" if self.states.get("diverged") else "–"
    spread = f" ± {self.deviation:.4f}" if self.deviation is not None else ""
    return f"{self.mean:.4f}{spread}"

  @property
  def values_text(self) -> str:
    """The grid point, as in `beta=0.9, nu=0.7`."""
    return ", ".join(f"{name}={value}" for name, value in self.values)

  @property
  def states_text(self) -> str:
    """The number of seeds by state, as in `1 diverged, 2 done`."""
    return ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))


def configuration_results(
  runs: Sequence[SweepRun], outcomes: Mapping[str, Outcome]
) -> list[ConfigurationResult]:
  """The configurations: labels in the order of the sweep, the best of each label first."""
  found = []
  for configuration in dict.fromkeys(run.configuration for run in runs):
    members = [outcomes[run.name] for run in runs if run.configuration == configuration]
    scores = [o.score for o in members if o.score is not None and o.state in ("done", "pruned")]
    # If one seed diverged, the mean of the others would mislead.
    diverged = any(o.state == "diverged" for o in members)
    usable = scores if not diverged else []
    tests = [o.test for o in members if o.test is not None and o.state in ("done", "pruned")]
    found.append(
      ConfigurationResult(
        *configuration,
        metric=next((o.metric for o in members if o.metric), ""),
        mean=statistics.fmean(usable) if usable else None,
        deviation=statistics.stdev(usable) if len(usable) > 1 else None,
        states={
          state: sum(o.state == state for o in members) for state in {o.state for o in members}
        },
        test=statistics.fmean(tests) if tests and not diverged else None,
      )
    )
  order = {label: i for i, label in enumerate(dict.fromkeys(result.label for result in found))}
  return sorted(found, key=lambda result: (order[result.label], result.rank))


def write(
  folder: pathlib.Path,
  runs: Sequence[SweepRun],
  outcomes: Mapping[str, Outcome],
  remarks: Mapping[str, object],
) -> None:
  """Writes each of the three files atomically; `remarks` go into sweep.json and below the table."""
  found = configuration_results(runs, outcomes)
  text = json.dumps(
    {
      **remarks,
      "cells": [  # the file format's name for runs
        {**run.__dict__, "flags": list(run.flags), **outcomes[run.name].__dict__} for run in runs
      ],
      "configurations": [
        {**result._asdict(), "values": dict(result.values), "states": dict(result.states)}
        for result in found
      ],
    },
    indent=2,
  )
  output.write_atomically(folder / "sweep.json", text + "\n")
  output.write_atomically(folder / "sweep.csv", _csv(runs, outcomes))
  output.write_atomically(folder / "sweep.md", markdown(found, remarks))


def markdown(found: Sequence[ConfigurationResult], remarks: Mapping[str, object]) -> str:
  """A Markdown table with the best configuration of each label in bold.

  If held-out clients rank the configurations, the table also has the test value of each label's best one.
  """
  best = {result.label: result for result in reversed(found) if result.rank < math.inf}
  metric = next((result.metric for result in found if result.metric), "score")
  on_test = metrics.on_test_data(metric)
  held_out = on_test != metric
  rows = [["algorithm", "values", f"final {metric}", *([f"final {on_test}"] * held_out), "runs"]]
  for result in found:
    is_best = best.get(result.label) is result
    text = f"**{result.text}**" if is_best else result.text
    test = f"{result.test:.4f}" if is_best and result.test is not None else "–"
    rows.append(
      [result.label, result.values_text or "–", text, *([test] * held_out), result.states_text]
    )
  table = ["| " + " | ".join(row) + " |" for row in rows]
  table.insert(1, "|" + "---|" * len(rows[0]))
  notes = [f"{name}: {value}" for name, value in remarks.items() if value is not None]
  return "\n".join([*table, "", "; ".join(notes) + "."]) + "\n"


def _csv(runs: Sequence[SweepRun], outcomes: Mapping[str, Outcome]) -> str:
  names = list(dict.fromkeys(name for run in runs for name in run.values))
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(
    ["cell", "label", "task", "algo", *names, "seed", "state", "rounds", "metric", "final", "test",
     "seconds", "reason"]
  )  # fmt: skip
  for run in runs:
    o = outcomes[run.name]
    writer.writerow(
      [run.name, run.label, run.task, run.algo, *(run.values.get(name, "") for name in names),
       run.seed, o.state, o.rounds, o.metric, "" if o.score is None else o.score,
       "" if o.test is None else o.test, round(o.seconds, 3), o.reason]
    )  # fmt: skip
  return text.getvalue()
