"""The splits as `--partition` spells them."""

from collections.abc import Callable

import numpy as np

from tasks.data.partitions.classes_split import classes_per_client
from tasks.data.partitions.dirichlet_split import dirichlet
from tasks.data.partitions.parts import Parts
from tasks.data.partitions.similarity_split import iid, sorted_similarity
from tff_momentum import validation

Partition = Callable[[np.ndarray, int, int], Parts]  # (labels, number of clients, seed)


def parse(text: str) -> Partition:
  """Returns the split that `--partition` names.

  Args:
    text: `iid`, `dirichlet:ALPHA`, `classes:PER_CLIENT` or `similarity:PERCENT`.

  Returns:
    A function of (labels, number of clients, seed).

  Raises:
    ValueError: the text has another form, or its number is out of range.

  >>> [len(part) for part in parse("dirichlet:0.3")(np.arange(100) % 10, 4, 0)]
  [25, 25, 25, 25]
  """
  name, _, argument = text.partition(":")
  try:
    if name == "iid" and not argument:
      return iid
    if name == "dirichlet":
      alpha = validation.number("partition=dirichlet:ALPHA", float(argument), at_least=0)
      return lambda labels, n, seed: dirichlet(labels, n, alpha, seed)
    if name == "classes":
      count = validation.integer("partition=classes:PER_CLIENT", int(argument), at_least=1)
      return lambda labels, n, seed: classes_per_client(labels, n, count, seed)
    if name == "similarity":
      percent = validation.number(
        "partition=similarity:PERCENT", float(argument), at_least=0, at_most=100
      )
      return lambda labels, n, seed: sorted_similarity(labels, n, percent, seed)
  except ValueError as error:
    if "partition=" in str(error):  # the number is out of range, which `validation` explains
      raise
  raise ValueError(
    "partition must be iid, dirichlet:ALPHA, classes:PER_CLIENT or similarity:PERCENT; "
    f"found {text!r}."
  )
