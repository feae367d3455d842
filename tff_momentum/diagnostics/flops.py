"""Floating-point operations of a client in a round (FedGBO, Appendix B, eq. 22).

    N = K (p·B (fwd + bwd) + C|x|) + q·n (fwd + bwd),    fwd + bwd = 3 × the forward multiply-adds

where p is the number of gradients per step, q the number of full gradients per round, and C the number of
operations per parameter and step. All three are counted by running the algorithm's own `client_update` on a
client that only counts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.client import Client
from tff_momentum.diagnostics.flops_layers import forward_operations
from tff_momentum.processes.exchange import CompiledExchange, specs
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState

BACKWARD_AND_FORWARD = 3
# Operations that move or create numbers without computing them.
FREE = ("Cast", "Const", "Fill", "Identity", "Pack", "Placeholder", "Reshape", "Select", "SelectV2",
        "Shape", "StridedSlice", "ZerosLike")  # fmt: skip


class Cost(NamedTuple):
  """What a client computes in a round, in the terms of the formula.

  Attributes:
    forward: the multiply-adds of the forward pass on one example.
    parameters: |x|.
    gradients: p.
    operations: C.
    full_gradients: q.
  """

  forward: int
  parameters: int
  gradients: int
  operations: float
  full_gradients: int

  def flops(self, steps: Any, batch: Any, examples: Any) -> Any:
    """N, the operations of a client in a round.

    Args:
      steps: K, the number of local steps.
      batch: B, the number of examples in a batch.
      examples: n, the number of the client's examples.
    """
    both_ways = float(BACKWARD_AND_FORWARD * self.forward)
    step = self.gradients * batch * both_ways + self.operations * self.parameters
    return steps * step + self.full_gradients * examples * both_ways


class Flops:
  """Counts the operations of a cohort's clients."""

  def __init__(self, process: FederatedProcess):
    """Counts the algorithm's and the model's operations.

    Args:
      process: the process to measure; its model must come from Keras.

    Raises:
      ValueError: if the model has a layer whose operations cannot be counted.
    """
    self.cost = cost(process)
    state_type, clients_type = process.next.type_signature.parameter

    @tff.tensorflow.computation(state_type.member.round, clients_type.member)
    def count(t, client):
      handle = process.make_client(t, client)
      n, batches = handle.num_examples, tf.cast(handle.num_batches, tf.float32)
      mean_batch = tf.math.divide_no_nan(n, batches)
      return self.cost.flops(handle.num_steps, mean_batch, n), tf.cast(n > 0, tf.float32)

    @tff.federated_computation(state_type, clients_type)
    def measure(state, clients):
      counted = tff.federated_map(count, (tff.federated_broadcast(state.round), clients))
      return tff.federated_mean(counted[0], counted[1])

    self._measure = measure

  def __call__(self, state: ProcessState, clients: Sequence[ClientInput]) -> float:
    """The mean operations of these clients in a round."""
    return float(self._measure(state, list(clients)))


def cost(process: FederatedProcess) -> Cost:
  """Counts what a client computes in an ordinary round, that is, not round 0."""
  algorithm, model = process.algorithm, process.model
  counted = [
    _count(process, compiled)
    for compiled in process.compiled_exchanges
    if not compiled.exchange.first_round_only
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


class _CountingClient(Client):
  """A client that takes one step with placeholders for gradients, and counts."""

  gradients = full_gradients = operations = 0

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
    placeholders = tuple(trees.map(tf.identity, x) for x in points)
    return placeholders if len(points) > 1 else placeholders[0]


def _count(process: FederatedProcess, compiled: CompiledExchange) -> _CountingClient:
  """Counts one exchange: builds its `client_update` in a graph of its own, which never runs."""

  def placeholder(spec: tf.TensorSpec) -> tf.Tensor:
    return tf.compat.v1.placeholder(spec.dtype, spec.shape)

  with tf.Graph().as_default():
    message, state, batch = (
      tf.nest.map_structure(placeholder, each)
      for each in (
        specs(compiled.types.message),
        specs(process.client_state_type),
        process.model.batch_spec,
      )
    )
    seed, zero = tf.zeros([2], tf.int32), tf.zeros([], tf.int32)
    client = ClientInput(seed, state, tf.data.Dataset.from_tensors(batch), steps=zero)
    counting = process.make_client(zero, client, _CountingClient)
    compiled.exchange.client_update(counting, message, state)
  return counting


def _size(operation: Any) -> int:
  """The number of values that an operation computes; scalars are counted too, but do not matter."""
  if operation.type in FREE or not operation.outputs:
    return 0
  return operation.outputs[0].shape.num_elements() or 0
