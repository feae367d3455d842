"""Writes a run's folder: config.json, metrics.csv and summary.json. One process at a time uses a folder."""

import csv
import fcntl
import itertools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import IO

from experiments.runs import reader, summary

# What may change between two starts of one run: how long and where it runs, not what it computes.
MAY_CHANGE = ("total_rounds", "runtime", "devices", "max_clients_in_flight", "deterministic",
              "gpu_convolutions", "gpu_recurrent", "versions")  # fmt: skip


class RunFolder:
  """The folder of one run.

  Attributes:
    path: the folder.
  """

  def __init__(self, path: pathlib.Path):
    self.path = path
    self._lock: IO[str] | None = None
    self._metrics: IO[str] | None = None
    self._columns: Sequence[str] = ()

  @classmethod
  def open(cls, root: str, config: Mapping[str, object], *, restart: bool = False) -> "RunFolder":
    """Creates or reopens the folder of a run and writes its config.json.

    Args:
      root: the folder of all runs.
      config: the values for config.json; `experiment_name` is the folder's name.
      restart: take a new folder if the name is taken; nothing is ever deleted.

    Raises:
      ValueError: the name is not a plain folder name, the folder cannot be written to or is in use, or it
        holds a run with other values.
    """
    name = str(config["experiment_name"])
    if name != os.path.basename(name) or name in ("", ".", ".."):
      raise ValueError(f"experiment_name must be a plain folder name; found {name!r}.")
    folder = cls(pathlib.Path(root) / name)
    if restart:
      numbered = (pathlib.Path(root) / f"{name}_{k}" for k in itertools.count(2))
      if folder.path.exists():
        folder = cls(next(path for path in numbered if not path.exists()))
    try:
      folder.path.mkdir(parents=True, exist_ok=True)
      folder._take_lock()
      folder._compare(config)
      folder.write_config(config)
    except OSError as error:
      raise ValueError(
        f"{folder.path} must be a folder that can be written to: {error.strerror}."
      ) from None
    return folder

  def write_config(self, config: Mapping[str, object]) -> None:
    """Writes config.json."""
    text = json.dumps(config, indent=2, default=str) + "\n"
    write_atomically(self.path / "config.json", text)

  def start_metrics(self, columns: Sequence[str], rounds: int) -> None:
    """Opens metrics.csv to append to, after its first rows; the arguments and errors are `cut_metrics`'s."""
    self.cut_metrics(columns, rounds)
    self._columns = columns
    self._metrics = open(self.path / "metrics.csv", "a", newline="", encoding="utf-8")  # noqa: SIM115

  def cut_metrics(self, columns: Sequence[str], rounds: int) -> None:
    """Deletes the later rows of metrics.csv; raises ValueError if it has fewer rows than should be kept.

    The summary is deleted first: a folder with a summary is complete, and the summary describes all rows.

    Args:
      columns: the file's columns, as `columns.header` returns them.
      rounds: the number of rows to keep, those of the rounds before the checkpoint.
    """
    path = self.path / "metrics.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    kept = lines[1 : rounds + 1]
    if len(kept) < rounds or not all(line.endswith("\n") for line in kept):
      raise ValueError(
        f"{path} must hold the {rounds} rounds before the checkpoint; found {len(kept)}: restore the file, "
        "or start again with --restart."
      )
    (self.path / "summary.json").unlink(missing_ok=True)
    write_atomically(path, ",".join(columns) + "\n" + "".join(kept))

  def amend_last_row(self, values: Mapping[str, float]) -> None:
    """Adds values to the last row of metrics.csv."""
    path = self.path / "metrics.csv"
    *lines, last = path.read_text(encoding="utf-8").splitlines(keepends=True)
    names, cells = csv.reader([lines[0], last])
    amended = {**dict(zip(names, cells, strict=True)), **values}
    write_atomically(path, "".join(lines) + ",".join(str(amended[name]) for name in names) + "\n")

  def write_row(self, row: Mapping[str, float]) -> None:
    """Appends a round's row to metrics.csv; other processes can read it when this returns."""
    assert self._metrics is not None, "start_metrics comes first"
    csv.DictWriter(self._metrics, self._columns, restval="", lineterminator="\n").writerow(row)
    self._metrics.flush()

  def sync_metrics(self) -> None:
    """Forces metrics.csv to disk, so that its rows survive a power failure."""
    assert self._metrics is not None, "start_metrics comes first"
    os.fsync(self._metrics.fileno())

  def write_summary(self) -> None:
    """Writes summary.json from metrics.csv."""
    found = summary.summarise(reader.read_metrics(self.path / "metrics.csv"))
    write_atomically(self.path / "summary.json", json.dumps(found, indent=2) + "\n")

  def close(self) -> None:
    """Closes the files and releases the folder."""
    for file in (self._metrics, self._lock):
      if file is not None:
        file.close()

  def _take_lock(self) -> None:
    self._lock = open(self.path / ".lock", "w")  # noqa: SIM115
    try:
      fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise ValueError(f"{self.path} is in use by another process; wait for it, or choose another "
                       "--experiment_name.") from None  # fmt: skip

  def _compare(self, config: Mapping[str, object]) -> None:
    """Raises ValueError if the folder holds a run with other values."""
    path = self.path / "config.json"
    if not path.exists():
      return
    try:
      before = reader.read_json(path)
    except reader.UnusableRun as reason:
      raise ValueError(f"{self.path} must hold a run: {reason} Move the folder away, or use "
                       "--restart.") from None  # fmt: skip
    now = json.loads(json.dumps(config, default=str))
    differing = [
      f"{key} was {before.get(key)!r} and is now {now.get(key)!r}"
      for key in sorted({*before, *now} - set(MAY_CHANGE))
      if before.get(key) != now.get(key)
    ]
    if differing:
      raise ValueError(
        f"{self.path} holds a run with other settings: {'; '.join(differing)}. Choose another "
        "--experiment_name, or use --restart."
      )


def write_atomically(path: pathlib.Path, text: str) -> None:
  """Replaces a file's contents; a reader or a crash sees the old contents or the new, never a part."""
  part = path.with_name(path.name + ".part")
  with open(part, "w", encoding="utf-8") as file:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
  os.replace(part, path)
