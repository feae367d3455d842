"""The table of configuration differences: in which values the runs of one method differ, beside the seed."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.reports.comparison import Method, Setting
from experiments.reports.table_formats import Table, TableCell
from experiments.runs.reader import Run

# The seed and the name differ between any two runs; a round's progress is no difference of configuration.
_EXPECTED = ("seed", "experiment_name")
_ABSENT = "not given"
MOST_VALUES = 12


def differences_table(setting: Setting) -> Table | None:
  """One row for each method and each value in which its runs differ; None if there is none."""
  rows = []
  for method in setting.methods:
    runs = _runs(method, setting)
    for name, counts in _differing([dict(flat(run.config)) for run in runs]):
      listed = [f"{value} ({_runs_text(n)})" for value, n in counts[:MOST_VALUES]]
      listed += [f"{len(counts) - MOST_VALUES} more"] if len(counts) > MOST_VALUES else []
      rows.append([TableCell(method.label), TableCell(name), TableCell(", ".join(listed))])
  if not rows:
    return None
  where = ", ".join([setting.label, *setting.notes])
  return Table("differences", f"Configuration differences between the runs of a method: {where}",
               "All values of config.json but the seed and the run's name, unfinished runs included.",
               ["Method", "Value", "Found"], rows, foldable=True, texts=True)  # fmt: skip


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
  """The values of a configuration as texts, nested ones with dotted names.

  >>> dict(flat({"algo": "ghbm", "hyperparameters": {"beta": 0.9, "tau": None}}))
  {'algo': 'ghbm', 'hyperparameters.beta': '0.9', 'hyperparameters.tau': 'null'}
  """
  for name, value in config.items():
    if isinstance(value, Mapping):
      yield from flat(value, f"{prefix}{name}.")
    else:
      yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def _runs(method: Method, setting: Setting) -> Sequence[Run]:
  ended = [run for configuration in method.configurations for run in configuration.runs]
  variants = sum(other.algo == method.algo for other in setting.methods)
  # An unfinished run belongs to the method of its algorithm, if there is only one.
  going_on = [run for run in setting.unfinished if run.config["algo"] == method.algo]
  return [*ended, *(going_on if variants == 1 else [])]


def _differing(
  configurations: Sequence[Mapping[str, str]],
) -> Iterator[tuple[str, list[tuple[str, int]]]]:
  """The names whose values differ, each with its values and how many runs have them."""
  for name in dict.fromkeys(name for values in configurations for name in values):
    counts = Counter(values.get(name, _ABSENT) for values in configurations)
    if len(counts) > 1 and name not in _EXPECTED:
      yield name, counts.most_common()


def _runs_text(count: int) -> str:
  return f"{count} run{'s' * (count > 1)}"
