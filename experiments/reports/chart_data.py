"""The data of the page's charts, as JSON: a mean curve over seeds for each method, column by column."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.reports import measures, palette, result_tables
from experiments.reports.algorithm_names import spelled
from experiments.reports.comparison import Method, Setting
from experiments.reports.labels import COLUMN_LABELS, X_LABELS
from experiments.runs.columns import EVAL, TRAIN, VALIDATION
from experiments.runs.metric import SHARES
from experiments.runs.reader import Run

MAX_POINTS = 400  # of a curve: more than a chart has pixels for would only make the page large
COSTS = ("bytes", "seconds", "virtual")
# Columns that are not drawn as diagnostics: they have their own figures or tables, or need none.
FAMILIES = ("train/", "eval/", "validation/", "bytes/", "seconds/", "flops/", "virtual/", "staleness/",
            "rounds/")  # fmt: skip
_DATA = {"eval": "Test", "validation": "Validation", "train": "Training"}
PLAIN = ("round", "clients", "clients/stale")
_DASH_UNIT = 2  # the width of a line in the browser; matplotlib's dashes are multiples of the width


def diagnostics(setting: Setting) -> list[str]:
  """The columns without a figure of their own, such as drift, cosine distances and norms."""
  runs = _drawn_runs(setting)
  columns = dict.fromkeys(column for run in runs for column in run.columns)
  counts = {c for c in columns if c.startswith("clients/")}
  nothing = {
    c for c in counts if not any(np.nan_to_num(run.columns.get(c, 0)).any() for run in runs)
  }
  return [c for c in columns if c not in {*PLAIN, *nothing} and not c.startswith(FAMILIES)]


def to_json(settings: Sequence[Setting]) -> str:
  """The data of all settings; safe inside an HTML script element."""
  text = json.dumps(
    [_setting(setting) for setting in settings], allow_nan=False, separators=(",", ":")
  )
  return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def unfinished_note(run: Run) -> str:
  """How far an unfinished run is, as in `round 12 of 60`."""
  total = run.config.get("total_rounds")
  return f"round {run.rounds}" + (f" of {total}" if isinstance(total, int) else "")


def _drawn_runs(setting: Setting) -> list[Run]:
  return [*(run for method in setting.methods for run in method.best.runs), *setting.unfinished]


def _setting(setting: Setting) -> dict[str, Any]:
  columns = _columns(setting)
  names = [column["key"] for column in columns]
  ranked = sorted(setting.methods, key=lambda m: measures.rank(m.best.runs, setting.metric))
  series = [_method(method, setting, names) for method in ranked]
  for run in setting.unfinished:
    series.append(_unfinished(run, names, {each["label"] for each in series}))
  reference = result_tables.baseline(setting)
  level = measures.final_spread(reference.best.runs, setting.metric).mean if reference else np.nan
  return {
    "label": setting.label,
    "metric": setting.metric.column,
    "baseline": reference.label if reference else None,
    "level": level * setting.metric.factor if np.isfinite(level) else None,
    "columns": columns,
    "x": {what: X_LABELS[what] for what in X_LABELS if any(what in s["spent"] for s in series)},
    "series": series,
  }


def _columns(setting: Setting) -> list[dict[str, Any]]:
  """The columns that the page offers, the main metric first."""
  runs = _drawn_runs(setting)
  measured = dict.fromkeys(
    name for run in runs for name, values in run.columns.items() if np.isfinite(values).any()
  )
  evaluated = [name for name in measured if name.startswith((EVAL, VALIDATION))]
  trained = [name for name in measured if name.startswith(TRAIN) and "num_examples" not in name]
  others = [name for name in diagnostics(setting) if name in measured]
  names = dict.fromkeys([setting.metric.column, *evaluated, *trained, *others])
  return [_column(name, runs) for name in names if name in measured]


def _column(name: str, runs: Sequence[Run]) -> dict[str, Any]:
  kind, _, rest = name.partition("/")
  share = _is_share(name)
  label = COLUMN_LABELS.get(name)
  if label is None and kind in _DATA:
    label = f"{_DATA[kind]} {rest.replace('_', ' ')}"
  values = np.concatenate([run.columns[name] for run in runs if name in run.columns])
  values = values[np.isfinite(values)]
  wide = bool(values.min() > 0 and values.max() > 100 * values.min())
  return {
    "key": name,
    "label": (label or name.replace("_", " ")) + (" (%)" if share else ""),
    "rising": share,
    "log": wide and not share,
  }


def _is_share(name: str) -> bool:
  return name.startswith((EVAL, VALIDATION, TRAIN)) and any(word in name for word in SHARES)


def _method(method: Method, setting: Setting, names: Sequence[str]) -> dict[str, Any]:
  runs = method.best.runs
  seeds = f"{len(runs)} seed{'s' * (len(runs) > 1)}"
  state = "diverged" if method.best.diverged else "finished"
  final = result_tables.final_text(method.best, setting)
  return {
    **_look(method.algo, method.variant),
    **_curves(runs, names),
    "label": method.label,
    "state": state,
    "final": final,
    "note": f"{seeds}; final {setting.metric.name} {final}",
  }


def _unfinished(run: Run, names: Sequence[str], taken: set[str]) -> dict[str, Any]:
  """An unfinished run, named by its folder: it has no method to speak for yet."""
  parts = run.path.parts
  choices = ("/".join(parts[-length:]) for length in range(1, len(parts) + 1))
  label = next((each for each in choices if each not in taken), str(run.path))
  total = run.config.get("total_rounds")
  return {
    **_look(run.config["algo"], 0),
    **_curves([run], names),
    "dash": "2 4",
    "label": label,
    "state": "unfinished",
    "final": f"{run.rounds}/{total}" if isinstance(total, int) else f"{run.rounds}/?",
    "note": f"{spelled(run.config['algo'])}, unfinished: {unfinished_note(run)}",
  }


def _look(algo: str, variant: int) -> dict[str, str]:
  colour, dashes, marker = palette.style(algo, variant)
  lengths = () if isinstance(dashes, str) else dashes[1]
  return {
    "colour": colour,
    "dash": " ".join(f"{length * _DASH_UNIT:g}" for length in lengths),
    "marker": marker,
  }


def _curves(runs: Sequence[Run], names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
  columns = {}
  for name in names:
    line = measures.curve(runs, name)
    if len(line.rounds):
      at = _picked(len(line.rounds))
      factor = 100.0 if _is_share(name) else 1.0
      columns[name] = {"rounds": _short(line.rounds[at]), "mean": _short(line.mean[at] * factor)}
      if np.any(line.std > 0):
        columns[name]["std"] = _short(line.std[at] * factor)
  rounds = runs[0].columns["round"][_picked(len(runs[0].columns["round"]))]
  spent = {"rounds": _short(rounds)}
  for what in COSTS:
    values = measures.spent(runs, what, rounds)
    if values is not None:
      spent[what] = _short(values)
  return {"columns": columns, "spent": spent}


def _picked(length: int) -> np.ndarray:
  """The indices of the points that are shown: evenly spaced, the first and the last among them."""
  return np.unique(np.linspace(0, length - 1, min(length, MAX_POINTS)).round().astype(int))


def _short(values: np.ndarray) -> list[float]:
  """Numbers with six significant digits, whole ones without a decimal point."""
  rounded = (float(f"{value:.6g}") for value in values)
  return [int(value) if value.is_integer() and abs(value) < 1e15 else value for value in rounded]
