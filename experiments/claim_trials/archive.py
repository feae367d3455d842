"""Finished runs of the claims in zip files, one per setting, so that evidence accumulates over machines.

`claims.py --archive=DIR` takes finished runs from DIR and adds those that it finishes itself. The archive
keeps a run's flags, its config.json and summary.json, and the columns of metrics.csv that claims are judged
by. A run whose flags have changed since counts as missing. Its config.json names the commit that it ran on.
"""

import csv
import io
import json
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

from experiments.sweeps.search_space import SweepRun

# Flags that change where and how fast a run is, but not its results.
WITHOUT_EFFECT = ("--data_dir=", "--max_clients_in_flight=")
# Columns that no claim uses. They are most of the bytes of a compressed file.
DROPPED = ("train/", "update_norm", "seconds/store", "seconds/data", "seconds/eval")
_DATE = (1980, 1, 1, 0, 0, 0)  # equal runs give equal files


def restore(archive: pathlib.Path, folder: pathlib.Path, runs: Sequence[SweepRun]) -> None:
  """Writes the folders of archived runs that the folder of a sweep lacks."""
  for path, chosen in _by_file(archive, runs).items():
    known = _read(path)
    for run in chosen:
      found = known.get(_entry(folder, run))
      target = folder / run.name
      if found is None or found["flags"] != _flags(run) or (target / "config.json").exists():
        continue
      target.mkdir(parents=True, exist_ok=True)
      (target / "metrics.csv").write_text(found["metrics"], encoding="utf-8")
      for name in ("config", "summary"):  # a run with a summary counts as finished: this comes last
        (target / f"{name}.json").write_text(json.dumps(found[name], indent=2), encoding="utf-8")


def save(archive: pathlib.Path, folder: pathlib.Path, runs: Sequence[SweepRun]) -> None:
  """Adds the finished runs of a sweep to the archive."""
  for path, chosen in _by_file(archive, runs).items():
    records = _read(path)
    new = [
      run
      for run in chosen
      if records.get(_entry(folder, run), {}).get("flags") != _flags(run)
      and (folder / run.name / "summary.json").exists()
    ]
    if new:
      records.update({_entry(folder, run): _record(folder / run.name, run) for run in new})
      _write(path, records)


def _by_file(archive: pathlib.Path, runs: Sequence[SweepRun]) -> dict[pathlib.Path, list[SweepRun]]:
  found: dict[pathlib.Path, list[SweepRun]] = {}
  for run in runs:
    setting = run.label.partition(".")[0]
    found.setdefault(archive / f"{setting}.zip", []).append(run)
  return found


def _entry(folder: pathlib.Path, run: SweepRun) -> str:
  return f"{folder.name}/{run.name}.json"


def _flags(run: SweepRun) -> list[str]:
  return [flag for flag in run.flags if not flag.startswith(WITHOUT_EFFECT)]


def _record(folder: pathlib.Path, run: SweepRun) -> dict[str, Any]:
  config, summary = (
    json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("config", "summary")
  )
  metrics = _judged((folder / "metrics.csv").read_text(encoding="utf-8"))
  return {"flags": _flags(run), "config": config, "summary": summary, "metrics": metrics}


def _judged(metrics: str) -> str:
  """The columns that claims use, with times rounded to milliseconds."""
  header, *rows = csv.reader(io.StringIO(metrics))
  chosen = [i for i, name in enumerate(header) if not name.startswith(DROPPED)]
  for row in rows:
    for i, name in enumerate(header):
      if name.startswith("seconds/") and row[i]:
        row[i] = f"{float(row[i]):.3f}"
  text = io.StringIO()
  csv.writer(text, lineterminator="\n").writerows(
    [row[i] for i in chosen] for row in [header, *rows]
  )
  return text.getvalue()


def _read(path: pathlib.Path) -> dict[str, dict[str, Any]]:
  if not path.exists():
    return {}
  with zipfile.ZipFile(path) as file:
    return {name: json.loads(file.read(name)) for name in file.namelist()}


def _write(path: pathlib.Path, records: dict[str, dict[str, Any]]) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.with_suffix(".partial")
  with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
    for name in sorted(records):
      info = zipfile.ZipInfo(name, _DATE)
      info.compress_type = zipfile.ZIP_DEFLATED
      file.writestr(info, json.dumps(records[name], separators=(",", ":")))
  partial.replace(path)
