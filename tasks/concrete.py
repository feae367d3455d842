"""The compressive strength of concrete from eight ingredients: UCI's CSV file of 1,030 mixtures."""

import csv
import pathlib

import numpy as np

from tasks.builders.regression_table import regression_task
from tasks.data import folders, synthetic
from tasks.data.folders import DataError
from tasks.data.sources import DATA
from tasks.task import Task
from tff_momentum import validation


def load(
  *,
  seed: int,
  num_clients: int = 20,
  similarity: float = 0.0,
  model: str = "linear",
  data: str = "real",
  data_dir: str | None = None,
) -> Task:
  """Loads the task.

  Args:
    seed: seed of the split, the initial weights and the synthetic data.
    num_clients: number of clients that share the 824 training mixtures.
    similarity: percentage of IID mixtures; at 0, a client holds neighbours in the order of the strength.
    model: linear or mlp.
    data: real or synthetic.
    data_dir: the folder that contains `concrete.csv`, or the file itself. The columns are separated by commas
      or semicolons, and the strength comes last.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("data", data, DATA)
  if data == "synthetic":
    made = synthetic.table(8, max(1030, 2 * num_clients), seed)
    features, target = made["features"], made["target"]
  else:
    root = folders.root(data_dir)
    numbers = read_csv(root if root.suffix == ".csv" else root / "concrete.csv")
    features, target = numbers[:, :-1], numbers[:, -1]
  return regression_task(
    "concrete", features, target, seed=seed, num_clients=num_clients, similarity=similarity,
    model=model, data=data, client_learning_rate=0.01,
  )  # fmt: skip


def read_csv(path: pathlib.Path) -> np.ndarray:
  """Reads the numbers of a CSV file with a header line.

  Raises:
    DataError: the file is missing, or has another format.
  """
  if not path.exists():
    raise folders.missing(
      "concrete.csv",
      path,
      "it is not downloaded automatically",
      "https://archive.ics.uci.edu/dataset/165 (the table as CSV with a header line)",
    )
  folders.readable(path)
  try:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
  except UnicodeDecodeError as error:
    raise DataError(f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error
  delimiter = ";" if ";" in lines[0] else ","
  rows = [row for row in csv.reader(lines[1:], delimiter=delimiter) if row]
  try:
    table = np.array([[float(cell.replace(",", ".")) for cell in row] for row in rows])
  except ValueError as error:
    raise DataError(f"{path}: expected numbers below a header line ({error}).") from error
  if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 2:
    raise DataError(f"{path}: expected rows of features and a target; found {table.shape}.")
  return table
