"""A task's data by reference, for runtimes whose clients train in other processes."""

import ast
import dataclasses
import os
from collections.abc import Mapping

import numpy as np

import tasks
from experiments.training import client_split
from tasks.data import folders
from tasks.task import Task
from tff_momentum import user_code
from tff_momentum.runtime import DataReference, provide, source


def load(name: str, seed: int, options: str, folder: str, splits_clients: bool = False) -> Task:
  """Loads a task in the process where its clients train.

  Args:
    name: the task's name.
    seed: the seed of the run.
    options: the task's options, a dictionary as a Python literal.
    folder: the working directory of the run, in which a task of the user's own may be defined.
    splits_clients: whether each client holds out a part of its examples.
  """
  user_code.add_folder(folder)
  task = tasks.load(name, seed=seed, **ast.literal_eval(options))
  return client_split.hold_out(task).task if splits_clients else task


def by_reference(
  task: Task,
  name: str,
  seed: int,
  options: Mapping[str, object],
  *,
  splits_clients: bool = False,
) -> Task:
  """The same task with references in place of data sets.

  Args:
    task: the task.
    name: its name.
    seed: the seed that it was loaded with.
    options: the options that it was loaded with.
    splits_clients: whether each client holds out a part of its examples; `task` then lacks them.
  """
  options = dict(options)
  # Other processes may have another working directory and other environment variables.
  folder = options.get("data_dir") or os.environ.get(folders.VARIABLE)
  if folder and "data_dir" in tasks.info(name).options:
    options["data_dir"] = os.path.abspath(str(folder))
  where = source(
    "experiments.training.remote_data:load",
    name=name,
    seed=seed,
    options=repr(options),
    folder=os.getcwd(),
    splits_clients=splits_clients,
  )

  provide(where, task)

  def dataset(client: str, client_seed: np.ndarray, batch_size: int) -> DataReference:
    first, second = (int(part) for part in client_seed)
    return DataReference(where, client, (first, second), batch_size)

  return dataclasses.replace(task, dataset=dataset)
