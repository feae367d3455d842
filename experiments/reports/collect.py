"""Reads the runs of a report: the finished ones, the unfinished ones, and what had to be left out."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from experiments.runs import reader
from experiments.runs.divergence import has_diverged
from experiments.runs.reader import Run, UnusableRun

FILES = ("config.json", "metrics.csv", "summary.json")
Stamp = tuple[tuple[int, int], ...]


class Collected(NamedTuple):
  """The runs below some folders.

  Attributes:
    finished: the runs with a summary.
    unfinished: the runs that are still going on or were interrupted, with the rounds that they have done.
    problems: a sentence for each run that is not among the finished ones.
  """

  finished: Sequence[Run]
  unfinished: Sequence[Run]
  problems: Sequence[str]


class Collector:
  """Reads run folders, and reads a folder again only when its files have changed."""

  def __init__(self, paths: Sequence[str]):
    """Takes run folders, or folders that contain them."""
    self._paths = paths
    self._read: dict[pathlib.Path, tuple[Stamp, Run | None, str]] = {}

  def collect(self) -> Collected:
    """Reads what is there now."""
    runs: dict[pathlib.Path, tuple[Run, str]] = {}
    problems = []
    for given in self._paths:
      folders = list(reader.run_folders(pathlib.Path(given)))
      if not folders:
        problems.append(
          f"{given}: expected a run folder (with config.json) or a folder of them; found none."
        )
      for folder in folders:
        run, problem = self._read_folder(folder)
        problems += [problem] if problem else []
        if run is not None:
          runs.setdefault(folder.resolve(), (run, problem))
    finished = [run for run, problem in runs.values() if not problem]
    unfinished = [run for run, problem in runs.values() if problem]
    return Collected(finished, unfinished, list(dict.fromkeys(problems)))

  def version(self) -> str:
    """A text that changes when a file of a run changes, or a run appears or disappears."""
    stamps = [(str(folder), _stamp(folder)) for folder in self._folders()]
    return f"{hash(tuple(stamps)) & (2**64 - 1):016x}"

  def _folders(self) -> Iterator[pathlib.Path]:
    for given in self._paths:
      yield from reader.run_folders(pathlib.Path(given))

  def _read_folder(self, folder: pathlib.Path) -> tuple[Run | None, str]:
    """A finished run; an unfinished run with a sentence that says so; or only a sentence."""
    stamp = _stamp(folder)
    known = self._read.get(folder)
    if known is None or known[0] != stamp:
      try:
        known = stamp, reader.read(folder), ""
      except UnusableRun as reason:
        known = stamp, _read_unfinished(folder), f"{folder}: {reason}"
      self._read[folder] = known
    return known[1], known[2]


def _read_unfinished(folder: pathlib.Path) -> Run | None:
  """The rounds that an unfinished run has done; None if the run has finished or is unusable."""
  if (folder / "summary.json").exists():
    return None
  try:
    config = reader.read_config(folder / "config.json")
    columns = reader.read_metrics(folder / "metrics.csv", running=True)
  except UnusableRun:
    return None
  return Run(folder, config, columns, has_diverged(reader.last_row(columns)))


def _stamp(folder: pathlib.Path) -> Stamp:
  """When the files of a run changed, and their sizes; sweep.json says which runs were pruned."""
  paths = [*(folder / name for name in FILES), folder.parent / "sweep.json"]
  stamps = []
  for path in paths:
    try:
      found = path.stat()
      stamps.append((found.st_mtime_ns, found.st_size))
    except OSError:
      stamps.append((0, 0))
  return tuple(stamps)
