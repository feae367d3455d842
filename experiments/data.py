"""Lists, downloads, verifies and describes the data sets of the tasks.

python experiments/data.py list --data_dir=DIR
python experiments/data.py fetch emnist_digits --data_dir=DIR
python experiments/data.py verify stackoverflow --data_dir=DIR
python experiments/data.py describe digits --plot=digits.png
"""

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import numpy as np

import tasks
from experiments.cli import errors
from experiments.cli.errors import OneSentenceParser, UserError
from experiments.training import label_plot
from tasks.data import folders

if TYPE_CHECKING:
  from tasks.task import Task

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


class Stored(NamedTuple):
  """The location of a task's data: a file or folder in the data folder, and the splits in it."""

  path: str
  splits: tuple[str, ...] = ()


STORED = {
  "emnist": Stored("tff/emnist_all.sqlite", ("all_train", "all_test")),
  "emnist_digits": Stored("tff/emnist_all.sqlite", ("digits_only_train", "digits_only_test")),
  "shakespeare": Stored("tff/shakespeare.sqlite", ("train", "test")),
  "stackoverflow": Stored("tff/stackoverflow.sqlite", ("train", "heldout", "test")),
  "stackoverflow_tag": Stored("tff/stackoverflow.sqlite", ("train", "heldout", "test")),
  "cifar100": Stored("tff/cifar100.sqlite", ("train", "test")),
  "cifar10_dirichlet": Stored("tfds/cifar10"),
  "cifar10_two_class": Stored("tfds/cifar10"),
  "cifar100_dirichlet": Stored("tfds/cifar100"),
  "fashion_mnist": Stored("tfds/fashion_mnist"),
  "emnist_sorted": Stored("tfds/emnist/balanced"),
  "sent140": Stored("tfds/sentiment140"),
  "gldv2": Stored("tff/gld160k"),
  "inaturalist": Stored("tff/USER_120K"),
  "concrete": Stored("concrete.csv"),
}


def list_data(root: pathlib.Path) -> list[str]:
  """One line per task: whether its data is present, and where."""
  lines = []
  for name in tasks.TASKS:
    if name not in STORED:
      lines.append(f"{name:20} embedded")
      continue
    path = root / STORED[name].path
    lines.append(f"{name:20} {'present' if path.exists() else 'missing'} {path}")
  return lines


def fetch(name: str, data_dir: str | None) -> str:
  """Downloads a task's data by loading it, including data that a run does not download itself."""
  if name in ("gldv2", "inaturalist"):
    from tasks.data import gldv2_inaturalist_download

    gldv2_inaturalist_download.build(
      gldv2_inaturalist_download.recipe(name), folders.root(data_dir) / "tff"
    )
  _load(name, "real", data_dir)
  return f"{name}: the data is in {folders.root(data_dir)}."


def verify(name: str, data_dir: str | None) -> str:
  """Reads and checks all of a task's data."""
  stored = STORED.get(name)
  if stored is None:
    return f"{name} has embedded data; there is nothing to verify."
  if stored.splits:
    from tasks.data import downloads, sqlite

    path = folders.root(data_dir) / stored.path
    if not path.exists():
      raise folders.missing(
        path.name,
        path,
        "it has not been downloaded yet",
        f"{downloads.TFF_DATA}/{path.name}.lzma (unpacked)",
      )
    sqlite.verify(path, stored.splits)
  task = _load(name, "real", data_dir)
  for _ in task.evaluation(256):
    pass
  return f"{name}: {len(task.clients):,} clients, {task.total_examples:,} examples, verified."


def describe(task: "Task", found: label_plot.Labels) -> list[str]:
  """A description of a task's clients and model, in lines of text."""
  sizes, table = found
  return [
    f"{task.name} ({task.data} data)",
    f"  clients           {len(task.clients):,}",
    f"  examples          {task.total_examples:,}",
    f"  per client        {sizes.min()} to {sizes.max()} examples, median {np.median(sizes):g}"
    f" (over {len(sizes)} clients)",
    f"  labels            {table.shape[1]} classes, {(table > 0).sum(1).mean():.1f} of them per client",
    f"  label skew        {found.skew:.2f} (0: all clients alike; 1: no class in common)",
    f"  model             {task.model.num_parameters:,} parameters",
  ]


def _load(name: str, data: str | None, data_dir: str | None) -> "Task":
  known = tasks.info(name).options
  from tff_momentum.runtime import set_execution_context

  set_execution_context()  # TFF's default context prints errors when the program exits
  options = {"data": data, "data_dir": data_dir}
  return tasks.load(
    name, seed=1, **{k: v for k, v in options.items() if v is not None and k in known}
  )


def main(argv: Sequence[str] | None = None) -> int:
  """Runs a command; returns the exit code."""
  parser = OneSentenceParser(
    prog="data.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument("command", choices=["list", "fetch", "verify", "describe"])
  parser.add_argument("task", nargs="?")
  parser.add_argument(
    "--data_dir",
    help=f"folder of the data sets (${folders.VARIABLE}, or {folders.DEFAULT_DATA_DIR})",
  )
  parser.add_argument("--data", choices=["real", "synthetic"])
  parser.add_argument("--plot", help="describe: an image file for a plot of the labels")
  arguments = parser.parse_args(argv)
  if arguments.command != "list" and arguments.task is None:
    parser.error(f"{arguments.command} needs the name of a task, which `list` shows")
  try:
    if arguments.task is not None:
      errors.check_name(
        "--task", arguments.task, tasks.TASKS, prefixes=(tasks.TFDS_PREFIX,), see="data.py list"
      )
    if arguments.command != "fetch":  # which creates the folder
      folders.check_given(arguments.data_dir)
    if arguments.command == "list":
      print("\n".join(list_data(folders.root(arguments.data_dir))))
    elif arguments.command == "describe":
      task = _load(arguments.task, arguments.data, arguments.data_dir)
      found = label_plot.count(task)
      print("\n".join(describe(task, found)))
      if arguments.plot:
        label_plot.plot(task, found, arguments.plot)
    else:
      act = fetch if arguments.command == "fetch" else verify
      print(act(arguments.task, arguments.data_dir))
  except (UserError, ValueError, OSError) as error:
    print(f"data.py: {error}", file=sys.stderr)
    return 2
  return 0


if __name__ == "__main__":
  sys.exit(main())
