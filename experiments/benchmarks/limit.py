"""The limit that the processor sets: an item's floating-point operations as plain matrix products.

A round's operations are those of FedGBO's formula (`tff_momentum.diagnostics.flops`): the multiply-adds of
the forward pass, twice as many for the backward pass, and the algorithm's own operations on the weights. This
competitor does exactly as many operations, as float32 matrix products of a size that a processor likes, on
as many threads as clients train at the same time. Nothing that computes the item in float32 is faster.
"""

import concurrent.futures

import numpy as np
import tensorflow as tf

from experiments.benchmarks import competitors, work_items
from tff_momentum.diagnostics import flops
from tff_momentum.runtime import set_execution_context
from tff_momentum.runtime.devices import available_cores

_SIDE = 512  # rows and columns of the matrices
_OPERATIONS_PER_ROW = 2 * _SIDE**2


class Limit:
  """Does an item's operations as matrix products; a round's time is the limit of all competitors."""

  def __init__(self, item: work_items.Item, algorithm: str = competitors.ALGORITHM):
    set_execution_context("inprocess")  # the same threads per operation
    threads = available_cores()
    self._rows = round(operations(item, algorithm) / threads / _OPERATIONS_PER_ROW)
    self._pool = concurrent.futures.ThreadPoolExecutor(threads)
    draw = np.random.default_rng(0)
    matrices = draw.standard_normal((threads, 2, _SIDE, _SIDE), dtype=np.float32)
    self._factors = [[tf.constant(matrix) for matrix in pair] for pair in matrices]
    self.initial: list[np.ndarray] = []

  def round(self) -> None:
    """Does as many operations as a round of the item."""
    list(self._pool.map(self._multiply, self._factors))

  def weights(self) -> list[np.ndarray]:
    """No weights: it trains nothing."""
    return []

  def _multiply(self, factors: list[tf.Tensor]) -> None:
    left, right = factors
    whole, rest = divmod(self._rows, _SIDE)
    for _ in range(whole):
      tf.linalg.matmul(left, right)
    tf.linalg.matmul(left[:rest], right)


def operations(item: work_items.Item, algorithm: str = competitors.ALGORITHM) -> float:
  """The floating-point operations of a round; a multiplication and an addition are two."""
  process = competitors.build_process(item, algorithm, competitors.build_model(item))
  cost = flops.cost(process)
  steps = item.examples // item.batch
  on_examples = cost._replace(operations=0).flops(steps, item.batch, item.examples)
  on_weights = steps * cost.operations * cost.parameters
  return item.clients * (2 * on_examples + on_weights)
