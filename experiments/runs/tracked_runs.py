"""Where trackers know a run by an id of their own: tracking.json in the run's folder."""

import json
import pathlib
from typing import Any

from experiments.runs import reader
from experiments.runs.folder import write_atomically

FILE = "tracking.json"


def read(folder: pathlib.Path, tracker: str) -> dict[str, Any]:
  """What a tracker has noted about a run; empty for a run that it does not know yet."""
  return _read(folder).get(tracker, {})


def write(folder: pathlib.Path, tracker: str, noted: dict[str, Any]) -> None:
  """Notes something about a run for a tracker, so that a resumed run continues there."""
  write_atomically(folder / FILE, json.dumps({**_read(folder), tracker: noted}, indent=2) + "\n")


def _read(folder: pathlib.Path) -> dict[str, Any]:
  try:
    return reader.read_json(folder / FILE)
  except reader.UnusableRun:  # there is none yet; a damaged one starts a new tracked run
    return {}
