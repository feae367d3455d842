"""The folder of an experiment: config.json, metrics.csv, summary.json."""

import csv
import dataclasses
import importlib.metadata
import json
import math
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

LAST_ROUNDS = 100  # the papers' tables average the accuracy over the last hundred rounds


@dataclasses.dataclass(frozen=True)
class RunFolder:
  """Where everything about one run is."""

  path: pathlib.Path

  @classmethod
  def create(cls, root: str, config: Mapping[str, Any]) -> "RunFolder":
    """Makes the folder and writes `config.json`; raises ValueError where that cannot be."""
    name = config["experiment_name"]
    if name != os.path.basename(name) or name in ("", ".", ".."):
      raise ValueError(f"experiment_name must be a plain folder name; found {name!r}.")
    folder = cls(pathlib.Path(root) / name)
    if (folder.path / "config.json").exists():
      raise ValueError(
        f"{folder.path} already holds a run; choose another --experiment_name or move it away."
      )
    try:
      folder.path.mkdir(parents=True, exist_ok=True)
      write_atomically(
        folder.path / "config.json", json.dumps(config, indent=2, default=str) + "\n"
      )
    except OSError as error:
      raise ValueError(
        f"{folder.path} must be a folder that can be written to; {error.strerror}."
      ) from None
    return folder

  @contextmanager
  def metrics(self, names: Sequence[str]) -> Iterator["MetricsWriter"]:
    """Opens `metrics.csv` for writing; `names` are the model's metrics."""
    with open(self.path / "metrics.csv", "w", newline="", encoding="utf-8") as file:
      yield MetricsWriter(file, names)

  def write_summary(self) -> dict[str, Any]:
    """Writes `summary.json` from `metrics.csv` and returns what it says."""
    with open(self.path / "metrics.csv", newline="", encoding="utf-8") as file:
      rows = list(csv.DictReader(file))
    summary: dict[str, Any] = {"rounds": len(rows)}
    for name in rows[-1]:
      values = [float(row[name]) for row in rows if row[name] != ""]
      if name.startswith("eval/") and values:
        recent = [float(row[name]) for row in rows[-LAST_ROUNDS:] if row[name] != ""]
        summary[f"final {name}"] = values[-1]
        summary[f"mean {name} over the last {LAST_ROUNDS} rounds"] = sum(recent) / len(recent)
      elif name.startswith("seconds/"):
        summary[name] = sum(values)
    summary["bytes"] = int(rows[-1]["bytes/total"])
    summary["diverged"] = not math.isfinite(float(rows[-1]["train/loss"]))
    write_atomically(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")
    return summary


class MetricsWriter:
  """Writes a row a round, each on disk before the next round begins."""

  def __init__(self, file: Any, names: Sequence[str]):
    columns = ["round", *(f"train/{n}" for n in names), *(f"eval/{n}" for n in names), "bytes/down",
               "bytes/up", "bytes/total", "clients", "update_norm", "seconds/data", "seconds/train",
               "seconds/eval"]  # fmt: skip
    self._file = file
    self._writer = csv.DictWriter(file, columns, restval="")
    self._writer.writeheader()

  def write(self, row: Mapping[str, float]) -> None:
    """Appends a round's numbers."""
    self._writer.writerow(row)
    self._file.flush()


def write_atomically(path: pathlib.Path, text: str) -> None:
  """Replaces a file's contents, so that a reader or a crash never sees half of it."""
  part = path.with_name(path.name + ".part")
  part.write_text(text, encoding="utf-8")
  os.replace(part, path)


def versions() -> dict[str, str]:
  """What it takes to run this again."""
  packages = ("tensorflow", "tensorflow-federated", "tensorflow-datasets", "numpy")
  found = {name: importlib.metadata.version(name) for name in packages}
  return {"python": platform.python_version(), **found, "git": _git_revision()}


def closing_words(folder: RunFolder, summary: Mapping[str, Any]) -> str:
  """What a finished run prints: the result, and where everything is."""
  shown = ", ".join(
    f"{name.removeprefix('final eval/')} {value:.4g}"
    for name, value in summary.items()
    if name.startswith("final eval/") and not name.endswith("num_examples")
  )
  return (
    f"Final evaluation after {summary['rounds']} rounds: {shown}.\n"
    f"Everything is in {folder.path}: config.json, metrics.csv, summary.json."
  )


def _git_revision() -> str:
  root = pathlib.Path(__file__).resolve().parent.parent
  try:
    describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(
      describe, capture_output=True, text=True, check=True, timeout=5
    ).stdout.strip()
  except (OSError, subprocess.SubprocessError):
    return "unknown"
