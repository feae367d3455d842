"""What a sweep has found: sweep.json, sweep.csv with a row for each run, sweep.md for each configuration."""

import csv
import io
import json
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.runs import folder as output
from experiments.runs import metric as metrics
from experiments.sweeps.outcomes import Outcome
from experiments.sweeps.search_space import SweepRun


class ConfigurationResult(NamedTuple):
  """A configuration: its seeds' mean and standard deviation, and how each of them ended."""

  label: str
  values: tuple[tuple[str, str], ...]
  metric: str
  mean: float | None
  deviation: float | None
  states: Mapping[str, int]

  @property
  def rank(self) -> float:
    """Sorts the best first; what diverged, failed or was pruned comes last."""
    if self.mean is None or self.states.get("pruned"):
      return math.inf
    return -metrics.named(self.metric).sign * self.mean

  @property
  def result(self) -> str:
    """Mean ± standard deviation, × for divergence."""
    if self.mean is None:
      return "×" if self.states.get("diverged") else "–"
    spread = f" ± {self.deviation:.4f}" if self.deviation is not None else ""
    return f"{self.mean:.4f}{spread}"


def configuration_results(
  runs: Sequence[SweepRun], outcomes: Mapping[str, Outcome]
) -> list[ConfigurationResult]:
  """The configurations, by label in the order of the sweep, the best of each first."""
  found = []
  for configuration in dict.fromkeys(run.configuration for run in runs):
    members = [outcomes[run.name] for run in runs if run.configuration == configuration]
    scores = [o.score for o in members if o.score is not None and o.state in ("done", "pruned")]
    # One diverged seed makes the configuration diverge: a mean over the lucky ones would mislead.
    usable = scores if not any(o.state == "diverged" for o in members) else []
    found.append(
      ConfigurationResult(
        *configuration,
        metric=next((o.metric for o in members if o.metric), ""),
        mean=statistics.fmean(usable) if usable else None,
        deviation=statistics.stdev(usable) if len(usable) > 1 else None,
        states={
          state: sum(o.state == state for o in members) for state in {o.state for o in members}
        },
      )
    )
  order = {label: i for i, label in enumerate(dict.fromkeys(line.label for line in found))}
  return sorted(found, key=lambda line: (order[line.label], line.rank))


def write(
  folder: pathlib.Path,
  runs: Sequence[SweepRun],
  outcomes: Mapping[str, Outcome],
  remarks: Mapping[str, Any],
) -> None:
  """Writes the three files, each at once; `remarks` go into sweep.json and under the table."""
  found = configuration_results(runs, outcomes)
  text = json.dumps(
    {
      **remarks,
      "cells": [
        {**run.__dict__, "flags": list(run.flags), **outcomes[run.name].__dict__} for run in runs
      ],
      "configurations": [
        {**line._asdict(), "values": dict(line.values), "states": dict(line.states)}
        for line in found
      ],
    },
    indent=2,
  )
  output.write_atomically(folder / "sweep.json", text + "\n")
  output.write_atomically(folder / "sweep.csv", _csv(runs, outcomes))
  output.write_atomically(folder / "sweep.md", markdown(found, remarks))


def markdown(found: Sequence[ConfigurationResult], remarks: Mapping[str, Any]) -> str:
  """A table, the best of each label in bold."""
  best = {line.label: line for line in reversed(found) if line.rank < math.inf}
  metric = next((line.metric for line in found if line.metric), "score")
  rows = [["algorithm", "values", f"eval/{metric}", "runs"]]
  for line in found:
    result = f"**{line.result}**" if best.get(line.label) is line else line.result
    values = ", ".join(f"{name}={value}" for name, value in line.values) or "–"
    states = ", ".join(f"{count} {state}" for state, count in sorted(line.states.items()))
    rows.append([line.label, values, result, states])
  table = ["| " + " | ".join(row) + " |" for row in rows]
  table.insert(1, "|" + "---|" * len(rows[0]))
  notes = [f"{name}: {value}" for name, value in remarks.items() if value is not None]
  return "\n".join([*table, "", "; ".join(notes) + "."]) + "\n"


def _csv(runs: Sequence[SweepRun], outcomes: Mapping[str, Outcome]) -> str:
  names = list(dict.fromkeys(name for run in runs for name in run.values))
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(
    ["cell", "label", "task", "algo", *names, "seed", "state", "rounds", "metric", "score", "seconds",
     "reason"]
  )  # fmt: skip
  for run in runs:
    o = outcomes[run.name]
    writer.writerow(
      [run.name, run.label, run.task, run.algo, *(run.values.get(name, "") for name in names),
       run.seed, o.state, o.rounds, o.metric, "" if o.score is None else o.score,
       round(o.seconds, 3), o.reason]
    )  # fmt: skip
  return text.getvalue()
