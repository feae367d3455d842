"""Floating-point operations of a client in a round (FedGBO, Appendix B, eq. 22).

    N = K (p·B (fwd + bwd) + C|x|) + q·n (fwd + bwd),    fwd + bwd = 3 × the forward multiply-adds

with p gradients a step, q full gradients a round and C operations a step for each parameter, all three
counted by letting the algorithm's own `client_update` run on a client that only counts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.algorithm import Exchange
from tff_momentum.client import Client
from tff_momentum.diagnostics.flops_layers import forward_operations
from tff_momentum.processes.exchange import Stage
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState

BACKWARD_AND_FORWARD = 3
# What moves or makes numbers without computing them.
FREE = ("Cast", "Const", "Fill", "Identity", "Pack", "Placeholder", "Reshape", "Select", "SelectV2",
        "Shape", "StridedSlice", "ZerosLike")  # fmt: skip


class Cost(NamedTuple):
  """What a client computes in a round, in the terms of the formula."""

  forward: int  # multiply-adds of one example
  parameters: int  # |x|
  gradients: int  # p
  operations: float  # C
  full_gradients: int  # q

  def flops(self, steps: Any, batch: Any, examples: Any) -> Any:
    """N, for K steps on batches of so many examples, of a client that holds `examples` in all."""
    both_ways = float(BACKWARD_AND_FORWARD * self.forward)
    step = self.gradients * batch * both_ways + self.operations * self.parameters
    return steps * step + self.full_gradients * examples * both_ways


class Flops:
  """Counts what a cohort's clients compute on average."""

  def __init__(self, process: FederatedProcess):
    """Counts the algorithm's operations; raises ValueError where the model's cannot be counted."""
    self.cost = cost(process)
    state_type, clients_type = process.next.type_signature.parameter

    @tff.tensorflow.computation(state_type.member.round, clients_type.member)
    def count(t, client):
      own_steps = client.steps if process.takes_steps else None
      handle = _Counting(process.model, process.work, client.data, client.seed, t, own_steps)
      n, batches = handle.num_examples, tf.cast(handle.num_batches, tf.float32)
      mean_batch = tf.math.divide_no_nan(n, batches)
      return self.cost.flops(handle.num_steps, mean_batch, n), tf.cast(n > 0, tf.float32)

    @tff.federated_computation(state_type, clients_type)
    def measure(state, clients):
      counted = tff.federated_map(count, (tff.federated_broadcast(state.round), clients))
      return tff.federated_mean(counted[0], counted[1])

    self._measure = measure

  def __call__(self, state: ProcessState, clients: Sequence[ClientInput]) -> float:
    """The mean over these clients."""
    return float(self._measure(state, list(clients)))


def cost(process: FederatedProcess) -> Cost:
  """Counts what a client computes in an ordinary round."""
  algorithm, model = process.algorithm, process.model
  counted = [
    _count(process, exchange, stage)
    for exchange, stage in zip(algorithm.exchanges, process.stages, strict=True)
    if not exchange.first_round_only
  ]
  operations: float = sum(c.operations for c in counted) / model.num_parameters
  return Cost(
    forward=forward_operations(model),
    parameters=model.num_parameters,
    gradients=sum(c.gradients for c in counted),
    operations=round(operations, 2)
    if algorithm.step_operations is None
    else algorithm.step_operations,
    full_gradients=sum(c.full_gradients for c in counted),
  )


class _Counting(Client):
  """A client that takes one step, with stand-ins for gradients, and counts."""

  gradients = full_gradients = operations = 0

  @property
  def num_batches(self):
    return self._batches()

  def steps(self, step, start):
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())

    def grad(y):
      self.gradients += 1
      return trees.map(tf.identity, y)

    carry = step(start, grad)
    self.operations += sum(_size(op) for op in graph.get_operations()[before:])
    return carry

  def full_gradient(self, *points):
    self.full_gradients += len(points)
    stand_ins = tuple(trees.map(tf.identity, x) for x in points)
    return stand_ins if len(points) > 1 else stand_ins[0]


def _count(process: FederatedProcess, exchange: Exchange, stage: Stage) -> _Counting:
  state_type, clients_type = process.next.type_signature.parameter
  counted = []

  @tff.tensorflow.computation(
    stage.message.type_signature.result, state_type.member.round, clients_type.member
  )
  def count(message, t, client):
    own_steps = client.steps if process.takes_steps else None
    counting = _Counting(process.model, process.work, client.data, client.seed, t, own_steps)
    exchange.client_update(counting, message, client.state)
    counted.append(counting)
    return np.float32(0)

  del count  # tracing it was all
  return counted[0]


def _size(operation: Any) -> int:
  """How many numbers an operation computes; scalars count too, and do not matter."""
  if operation.type in FREE or not operation.outputs:
    return 0
  return operation.outputs[0].shape.num_elements() or 0
