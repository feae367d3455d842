"""Hand-made run folders for the tests of reports, claims and plots."""

import csv
import json
import math
import pathlib

from experiments.reports import comparison
from experiments.runs import reader

MODEL = 1000  # bytes


def write_run(
  root,
  algo,
  accuracies,
  *,
  seed=1,
  name=None,
  up=MODEL,
  down=MODEL,
  clients=2,
  hyperparameters=None,
  columns=None,
  metric="accuracy",
  details=None,
  finished=True,
  **config,
):
  """Writes a run folder as runs/folder.py does; rounds with an accuracy of None are not evaluated."""
  folder = pathlib.Path(root) / (name or f"{algo}_{seed}_{len(list(pathlib.Path(root).glob('*')))}")
  folder.mkdir(parents=True)
  rows = []
  for t, value in enumerate(accuracies, 1):
    row = {"round": t, "train/loss": 1 / t if value is None or math.isfinite(value) else math.nan,
           "eval/loss": 1 / t, f"eval/{metric}": value, "bytes/down": down * clients,
           "bytes/up": up * clients, "bytes/total": (down + up) * clients * t, "clients": clients,
           "seconds/data": 0.5, "seconds/train": 1.5, "seconds/eval": 7.0}  # fmt: skip
    row.update((column, values[t - 1]) for column, values in (columns or {}).items())
    rows.append(row)
  with open(folder / "metrics.csv", "w", newline="") as file:
    writer = csv.DictWriter(file, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
  resolved = {
    "task": "digits", "algo": algo, "seed": seed, "total_rounds": len(rows), "data": "embedded",
    "clients_per_round": clients, "hyperparameters": {"client_learning_rate": 0.1, **(hyperparameters or {})},
    "task_details": {"num_clients": 10, "alpha": 0.1, **(details or {})},
    "versions": {"git": "abc"}, **config,
  }  # fmt: skip
  (folder / "config.json").write_text(json.dumps(resolved))
  if finished:
    (folder / "summary.json").write_text(json.dumps({"rounds": len(rows), "diverged": False}))
  return folder


def compared(root):
  """The settings of the runs below a folder, and the messages about unusable runs."""
  found, problems = reader.read_all([str(root)])
  settings, more = comparison.compare(found)
  return settings, problems + more
