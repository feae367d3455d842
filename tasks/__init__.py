"""The federated learning tasks, by the name that `--task` takes.

This module is a literal table and imports nothing heavy, so listing the tasks or rejecting an unknown option
does not wait for TensorFlow. A task's own module is imported when the task is loaded:

    import tasks

    task = tasks.load("digits", seed=1, alpha=0.1)
"""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tff_momentum import user_code
from tff_momentum.registry import REQUIRED, Default

if TYPE_CHECKING:
  from tasks.task import Task

Option = str | int | float | bool | None | Default
TFDS_PREFIX = "tfds:"


class TaskInfo(NamedTuple):
  """What is known about a task without loading it.

  Attributes:
    module: the module that defines the task's `load(*, seed, ...)`.
    summary: one line about the data and the clients.
    options: the keyword arguments of `load` other than `seed`, with their defaults or `REQUIRED`.
    takes_name: whether `load` serves several tasks and takes the task's name as its first argument.
  """

  module: str
  summary: str
  options: Mapping[str, Option]
  takes_name: bool = False

  @property
  def synthetic_options(self) -> dict[str, str]:
    """The options that make the data synthetic; none for a task with embedded data."""
    return {"data": "synthetic"} if "data" in self.options else {}


TASKS: dict[str, TaskInfo] = {
  "digits": TaskInfo(
    "tasks.digits",
    "8×8 handwritten digits (embedded), Dirichlet label split",
    {"num_clients": 100, "alpha": 0.5, "model": "mlp"},
  ),
  "quadratic": TaskInfo(
    "tasks.quadratic",
    "quadratic clients with known curvature, G, δ and optimum",
    {
      "num_clients": 100,
      "dimension": 20,
      "mu": 0.1,
      "smoothness": 1.0,
      "gradient_dissimilarity": 1.0,
      "hessian_dissimilarity": 0.1,
      "noise": 0.0,
      "examples_per_client": 10,
    },
  ),
  "diabetes": TaskInfo(
    "tasks.diabetes",
    "linear regression on 442 patients (embedded)",
    {"num_clients": 20, "similarity": 0.0, "model": "linear"},
  ),
  "concrete": TaskInfo(
    "tasks.concrete",
    "linear regression on concrete strength, from a CSV file",
    {"num_clients": 20, "similarity": 0.0, "model": "linear", "data": "real", "data_dir": None},
  ),
  "stackoverflow": TaskInfo(
    "tasks.stackoverflow",
    "next word of Stack Overflow posts, by user",
    {
      "data": "real",
      "data_dir": None,
      "num_clients": None,
      "max_examples_per_client": 128,
      "vocab_from_data": False,
      "vocabulary_size": 10_000,
    },
  ),
  "stackoverflow_tag": TaskInfo(
    "tasks.stackoverflow_tag",
    "tags of Stack Overflow posts, by user",
    {
      "data": "real",
      "data_dir": None,
      "num_clients": None,
      "max_examples_per_client": 500,
      "vocab_from_data": False,
      "vocabulary_size": 10_000,
      "num_tags": 500,
    },
  ),
  "shakespeare": TaskInfo(
    "tasks.shakespeare",
    "next character of Shakespeare's plays, by role",
    {
      "model": "lstm",
      "partition": "role",
      "data": "real",
      "data_dir": None,
      "num_clients": None,
      "max_examples_per_client": None,
    },
  ),
  "emnist": TaskInfo(
    "tasks.emnist",
    "62 handwritten characters, by writer",
    {
      "model": None,
      "data": "real",
      "data_dir": None,
      "num_clients": None,
      "max_examples_per_client": None,
    },
    takes_name=True,
  ),
  "emnist_digits": TaskInfo(
    "tasks.emnist",
    "10 handwritten digits, by writer",
    {
      "model": None,
      "data": "real",
      "data_dir": None,
      "num_clients": None,
      "max_examples_per_client": None,
    },
    takes_name=True,
  ),
  "emnist_sorted": TaskInfo(
    "tasks.emnist_sorted",
    "EMNIST balanced (47 classes), s % similar clients",
    {
      "num_clients": 400,
      "similarity": 0.0,
      "model": "logistic",
      "data": "real",
      "data_dir": None,
      "max_examples_per_client": None,
    },
  ),
  "cifar100": TaskInfo(
    "tasks.cifar100",
    "CIFAR-100, TFF's 500 clients by Pachinko allocation",
    {
      "model": "resnet18",
      "data": "real",
      "data_dir": None,
      "crop": 24,
      "num_clients": None,
      "max_examples_per_client": None,
    },
  ),
  "cifar10_dirichlet": TaskInfo(
    "tasks.cifar_dirichlet",
    "CIFAR-10, Dirichlet label split",
    {
      "num_clients": 100,
      "alpha": 0.0,
      "model": "lenet",
      "data": "real",
      "data_dir": None,
      "max_examples_per_client": None,
    },
    takes_name=True,
  ),
  "cifar100_dirichlet": TaskInfo(
    "tasks.cifar_dirichlet",
    "CIFAR-100, Dirichlet label split",
    {
      "num_clients": 100,
      "alpha": 0.0,
      "model": "lenet",
      "data": "real",
      "data_dir": None,
      "max_examples_per_client": None,
    },
    takes_name=True,
  ),
  "cifar10_two_class": TaskInfo(
    "tasks.cifar10_two_class",
    "CIFAR-10, at most two classes per client",
    {
      "num_clients": 50,
      "partition": "classes:2",
      "model": "mlp600",
      "data": "real",
      "data_dir": None,
      "max_examples_per_client": None,
    },
  ),
  "fashion_mnist": TaskInfo(
    "tasks.fashion_mnist",
    "Fashion-MNIST, at most two classes per client",
    {
      "num_clients": 50,
      "partition": "classes:2",
      "model": "mlp300",
      "data": "real",
      "data_dir": None,
      "max_examples_per_client": None,
    },
  ),
  "sent140": TaskInfo(
    "tasks.sent140",
    "sentiment of tweets, by user",
    {"data": "real", "data_dir": None, "num_clients": None, "max_examples_per_client": None},
  ),
  "gldv2": TaskInfo(
    "tasks.gldv2_inaturalist",
    "landmarks by photographer, 2,028 classes",
    {
      "model": "mobilenet_v2",
      "data": "real",
      "data_dir": None,
      "num_clients": None,
      "max_examples_per_client": None,
      "image_size": 224,
      "pretrained": False,
    },
    takes_name=True,
  ),
  "inaturalist": TaskInfo(
    "tasks.gldv2_inaturalist",
    "species by observer, 1,203 classes",
    {
      "model": "mobilenet_v2",
      "data": "real",
      "data_dir": None,
      "num_clients": None,
      "max_examples_per_client": None,
      "image_size": 224,
      "pretrained": False,
    },
    takes_name=True,
  ),
}

# `tfds:NAME` is any TFDS image classification data set whose images have one size.
_TFDS_TASK = TaskInfo(
  "tasks.tfds_images",
  "a TFDS image classification data set, split over clients",
  {
    "num_clients": 100,
    "partition": "dirichlet:0.3",
    "model": "cnn",
    "data": "real",
    "data_dir": None,
    "max_examples_per_client": None,
  },
  takes_name=True,
)


def info(name: str) -> TaskInfo:
  """Looks up a task without importing it; only a task of the user's own is imported.

  Args:
    name: a key of `TASKS`, `tfds:NAME`, or `package.module:load` for a task of the user's own, whose
      signature gives the options.

  Returns:
    The task's module, summary and options.

  Raises:
    ValueError: no task has this name, or the user's function cannot be used.

  >>> info("digits").options["alpha"]
  0.5
  """
  if name.startswith(TFDS_PREFIX):
    return _TFDS_TASK
  if user_code.is_user_code(name):
    options = user_code.parameters(name, REQUIRED, needed=["seed"])
    del options["seed"]
    return TaskInfo(name.partition(":")[0], user_code.summary(name), options)
  if name not in TASKS:
    raise ValueError(f"There is no task {name!r}: expected one of {', '.join(TASKS)}.")
  return TASKS[name]


def loader(name: str) -> "Callable[..., Task]":
  """Imports a task's module and returns its `load(*, seed, **options)`.

  Args:
    name: as for `info`.

  Raises:
    ValueError: no task has this name, or the user's function cannot be used.
  """
  found = info(name)
  if user_code.is_user_code(name):
    return functools.partial(_load_user_task, name, found.options)
  function = importlib.import_module(found.module).load
  return functools.partial(function, name) if found.takes_name else function


def load(name: str, *, seed: int, **options: Any) -> "Task":
  """Loads a task.

  Args:
    name: as for `info`.
    seed: seed of the split, the initial weights and the synthetic data.
    **options: overrides of the defaults in `info(name).options`.

  Returns:
    The task.

  Raises:
    ValueError: the task has no such option, or a value is invalid; `tasks.data.folders.DataError` (a
      `ValueError`) if its data is missing or damaged.

  >>> load("digits", seed=1, num_clients=10)
  Task('digits', embedded data, 10 clients, 1,438 examples, model of 4,810 parameters)
  """
  known = info(name).options
  for option in options:
    if option not in known:
      raise ValueError(
        f"The task {name} has no option {option!r}: expected one of {', '.join(known)}."
      )
  return loader(name)(seed=seed, **options)


def _load_user_task(
  name: str, defaults: Mapping[str, Option], *, seed: int, **options: Any
) -> "Task":
  """Calls the user's function; its options, as resolved, become part of the task's details."""
  from tasks.task import Task

  task = user_code.call(name, {"seed": seed, **options}, Task, "a tasks.task.Task")
  return dataclasses.replace(task, details={**defaults, **options, **task.details})
