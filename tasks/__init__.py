"""The tasks by name. This module imports nothing heavy: `--list` and a wrong name must answer at once."""

import functools
import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
  """Where a task is made, and what it is in one line."""

  module: str
  summary: str
  function: str = "load"
  arguments: tuple[str, ...] = ()  # what the function is told before its options


TASKS: dict[str, Entry] = {
  "digits": Entry("tasks.digits", "8×8 handwritten digits (carried along), Dirichlet label split"),
  "quadratic": Entry("tasks.quadratic", "quadratic clients with known curvature, G, δ and optimum"),
  "diabetes": Entry("tasks.diabetes", "linear regression on 442 patients (carried along)"),
  "concrete": Entry("tasks.concrete", "linear regression on concrete strength, from a CSV file"),
  "stackoverflow": Entry("tasks.stackoverflow", "next word of Stack Overflow posts, by user"),
  "stackoverflow_tag": Entry(
    "tasks.stackoverflow", "tags of Stack Overflow posts, by user", "load_tags"
  ),
  "shakespeare": Entry("tasks.shakespeare", "next character of Shakespeare's plays, by role"),
  "emnist": Entry("tasks.emnist", "62 handwritten characters, by writer", arguments=("emnist",)),
  "emnist_digits": Entry(
    "tasks.emnist", "10 handwritten digits, by writer", arguments=("emnist_digits",)
  ),
  "emnist_sorted": Entry(
    "tasks.tfds_images", "EMNIST balanced (47 classes), s % similar clients", "load_emnist_sorted"
  ),
  "cifar100": Entry("tasks.cifar100", "CIFAR-100, TFF's 500 clients by Pachinko allocation"),
  "cifar10_dirichlet": Entry(
    "tasks.tfds_images", "CIFAR-10, Dirichlet label split", "load_dirichlet", ("cifar10",)
  ),
  "cifar100_dirichlet": Entry(
    "tasks.tfds_images", "CIFAR-100, Dirichlet label split", "load_dirichlet", ("cifar100",)
  ),
  "cifar10_two_class": Entry(
    "tasks.tfds_images",
    "CIFAR-10, at most two classes a client",
    "load_two_class",
    ("cifar10_two_class",),
  ),
  "fashion_mnist": Entry(
    "tasks.tfds_images",
    "Fashion-MNIST, at most two classes a client",
    "load_two_class",
    ("fashion_mnist",),
  ),
  "sent140": Entry("tasks.sent140", "sentiment of tweets, by user"),
  "gldv2": Entry(
    "tasks.landmarks", "landmarks by photographer, 2,028 classes", arguments=("gldv2",)
  ),
  "inaturalist": Entry(
    "tasks.landmarks", "species by observer, 1,203 classes", arguments=("inaturalist",)
  ),
}


def loader(name: str) -> Any:
  """The function `load(*, seed, ...)` of a task; its keyword arguments are the task's options.

  Beside the names in `TASKS`, `tfds:NAME` is any image classification data set of TFDS.
  """
  if name.startswith("tfds:"):
    module = importlib.import_module("tasks.tfds_images")
    return functools.partial(module.load_tfds, name.removeprefix("tfds:"))
  entry = TASKS[name]
  function = getattr(importlib.import_module(entry.module), entry.function)
  return functools.partial(function, *entry.arguments) if entry.arguments else function
