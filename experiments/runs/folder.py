"""The folder of an experiment: config.json, metrics.csv, summary.json, and who is using it."""

import csv
import fcntl
import importlib.metadata
import itertools
import json
import math
import os
import pathlib
import platform
import resource
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

LAST_ROUNDS = 100  # the papers' tables average over the last hundred rounds; half of a short run
# Clients and rounds that came to nothing, each counted in the round in which it did.
COUNTED = ("clients/dropped", "clients/late", "clients/stale", "rounds/skipped")
# What may change between two starts of one run: how long and where it runs, not what it computes.
FREE = ("total_rounds", "runtime", "devices", "max_clients_in_flight", "versions")


class RunFolder:
  """Where everything about one run is; one process at a time may use it."""

  def __init__(self, path: pathlib.Path):
    self.path = path
    self._lock: Any = None
    self._metrics: Any = None
    self._columns: list[str] = []

  @classmethod
  def open(cls, root: str, config: Mapping[str, Any], *, restart: bool = False) -> "RunFolder":
    """Makes the folder of a run, or finds it again; raises ValueError where that cannot be.

    Args:
      root: the folder of all runs.
      config: every resolved value; a folder that was made with other values is refused.
      restart: take a new folder where the name is taken; nothing is ever deleted.
    """
    name = config["experiment_name"]
    if name != os.path.basename(name) or name in ("", ".", ".."):
      raise ValueError(f"experiment_name must be a plain folder name; found {name!r}.")
    folder = cls(pathlib.Path(root) / name)
    if restart:
      taken = (pathlib.Path(root) / f"{name}_{k}" for k in itertools.count(2))
      folder = folder if not folder.path.exists() else cls(next(p for p in taken if not p.exists()))
    try:
      folder.path.mkdir(parents=True, exist_ok=True)
      folder._take_lock()
      folder._compare(config)
      text = json.dumps(config, indent=2, default=str) + "\n"
      write_atomically(folder.path / "config.json", text)
    except OSError as error:
      raise ValueError(
        f"{folder.path} must be a folder that can be written to: {error.strerror}."
      ) from None
    return folder

  def start_metrics(
    self,
    names: Sequence[str],
    rounds: int,
    measured: Sequence[str] = (),
    diagnostics: Sequence[str] = (),
  ) -> None:
    """Opens `metrics.csv`, its first `rounds` rows kept.

    Args:
      names: the model's metrics.
      rounds: how many rows to keep.
      measured: what the cohorts say of themselves; together with it their time is taken.
      diagnostics: what is measured now and then; so is its time.
    """
    self._columns = [
      "round",
      *(f"train/{name}" for name in names),
      *(f"eval/{name}" for name in names if name != "num_examples"),
      *("bytes/down", "bytes/up", "bytes/total", "clients", "clients/non_finite", "update_norm"),
      *measured,
      *diagnostics,
      *(["seconds/clock"] if measured else []),
      *("seconds/store", "seconds/data", "seconds/train"),
      *(["seconds/diagnostics"] if diagnostics else []),
      "seconds/eval",
    ]
    path = self.path / "metrics.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    kept = lines[1 : rounds + 1]
    if len(kept) < rounds or not all(line.endswith("\n") for line in kept):
      raise ValueError(
        f"{path} must hold the {rounds} rounds that the checkpoint has behind it; found {len(kept)}: put "
        "it back, or start anew with --restart."
      )
    write_atomically(path, ",".join(self._columns) + "\n" + "".join(kept))
    self._metrics = open(path, "a", newline="", encoding="utf-8")  # noqa: SIM115

  def write_row(self, row: Mapping[str, float]) -> None:
    """Appends a round's numbers, which are on disk before the next round begins."""
    csv.DictWriter(self._metrics, self._columns, restval="", lineterminator="\n").writerow(row)
    self._metrics.flush()

  def force_out(self) -> None:
    """Makes sure that all rows so far survive a power failure."""
    os.fsync(self._metrics.fileno())

  def write_summary(self) -> dict[str, Any]:
    """Writes `summary.json` from `metrics.csv` and returns what it says."""
    summary = summarise(self.path / "metrics.csv")
    write_atomically(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")
    return summary

  def summary(self) -> dict[str, Any]:
    """What `summary.json` says; nothing if there is none."""
    path = self.path / "summary.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

  def close(self) -> None:
    """Lets others use the folder."""
    if self._metrics is not None:
      self._metrics.close()
    self._lock.close()

  def _take_lock(self) -> None:
    self._lock = open(self.path / ".lock", "w")  # noqa: SIM115
    try:
      fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise ValueError(f"{self.path} is in use by another process; wait for it, or choose another "
                       "--experiment_name.") from None  # fmt: skip

  def _compare(self, config: Mapping[str, Any]) -> None:
    path = self.path / "config.json"
    if not path.exists():
      return
    try:
      before = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
      raise ValueError(f"{path} must be the JSON that a run wrote; found something else: move the "
                       "folder away, or use --restart.") from None  # fmt: skip
    now = json.loads(json.dumps(config, default=str))
    differing = [
      f"{key} was {before.get(key)!r} and is now {now.get(key)!r}"
      for key in sorted({*before, *now} - set(FREE))
      if before.get(key) != now.get(key)
    ]
    if differing:
      raise ValueError(
        f"{self.path} holds a run with other settings: {'; '.join(differing)}. Choose another "
        "--experiment_name, or use --restart."
      )


def summarise(path: pathlib.Path) -> dict[str, Any]:
  """The last and the mean evaluation of a finished run, its bytes and its time."""
  with open(path, newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
  summary: dict[str, Any] = {"rounds": len(rows)}
  last = min(LAST_ROUNDS, max(1, len(rows) // 2))
  for name in rows[-1]:
    values = [float(row[name]) for row in rows if row[name] != ""]
    if name.startswith("eval/") and values:
      recent = [float(row[name]) for row in rows[-last:] if row[name] != ""]
      summary[f"final {name}"] = values[-1]
      summary[f"mean {name} over the last {last} rounds"] = sum(recent) / len(recent)
    elif name.startswith("seconds/") or name in COUNTED:
      summary[name] = sum(values)
  summary["peak memory, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
  summary["bytes"] = int(rows[-1]["bytes/total"])
  summary["diverged"] = has_diverged(rows[-1])
  return summary


def has_diverged(row: Mapping[str, Any]) -> bool:
  """Whether a round's loss is not finite, or none of its clients had a finite update."""
  losses = [row[name] for name in ("train/loss", "eval/loss") if row.get(name, "") != ""]
  all_broken = float(row.get("clients/non_finite") or 0) > 0 and not float(row["clients"])
  return all_broken or not all(math.isfinite(float(loss)) for loss in losses)


def write_atomically(path: pathlib.Path, text: str) -> None:
  """Replaces a file's contents, so that a reader or a crash never sees half of it."""
  part = path.with_name(path.name + ".part")
  with open(part, "w", encoding="utf-8") as file:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
  os.replace(part, path)


def versions() -> dict[str, str]:
  """What it takes to run this again."""
  packages = ("tensorflow", "tensorflow-federated", "tensorflow-datasets", "numpy")
  found = {name: importlib.metadata.version(name) for name in packages}
  return {"python": platform.python_version(), **found, "git": _git_revision()}


def _git_revision() -> str:
  root = pathlib.Path(__file__).resolve().parents[2]
  describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
  try:
    return subprocess.run(
      describe, capture_output=True, text=True, check=True, timeout=5
    ).stdout.strip()
  except (OSError, subprocess.SubprocessError):
    return "unknown"
