"""An algorithm's own local steps, seen from outside: the first and last carry, and one step at a time.

An algorithm's record does not contain its local step: `client_update` passes it to `Client.steps`. So a
measure runs the algorithm's own `client_update` on a client that intercepts that call, and takes the steps
itself.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.algorithm import ClientState, Message
from tff_momentum.client import Carry, Client, Step
from tff_momentum.models.model import Batch, Weights
from tff_momentum.processes.exchange import run_exchange
from tff_momentum.processes.process import ClientInput, FederatedProcess


class StepsCall(NamedTuple):
  """An algorithm's call of `Client.steps`: its step function, and the carry before or after the steps."""

  step: Step
  carry: Carry


class StepBatches(NamedTuple):
  """The batches of a client's local steps, concatenated.

  Attributes:
    joined: all examples, in order.
    ends: int32, for each batch the index of its end in `joined`.
  """

  joined: Any
  ends: Any


class LocalSteps:
  """The exchange of a process in which clients take local steps.

  Attributes:
    message_type: the TFF type of what the clients download in it.
    message: TFF computation (process state@SERVER, clients@CLIENTS) -> that message@SERVER.
    batches_type: the TFF type of `StepBatches`.
  """

  def __init__(self, process: FederatedProcess):
    """Finds the exchange.

    Args:
      process: the process whose local steps are wanted.

    Raises:
      ValueError: if clients take no local steps, or do not all start from the same model.
    """
    numbers = [n for n, e in enumerate(process.algorithm.exchanges) if e.takes_local_steps]
    if not numbers:
      raise ValueError(
        "drift, cosine and alpha compare local steps; the clients of this algorithm take none. Leave them "
        "out of --diagnostics, or choose another algorithm."
      )
    if process.algorithm.max_staleness:
      raise ValueError(
        "drift, cosine and alpha compare clients that start from the same model; those of an asynchronous "
        "algorithm do not. Leave them out of --diagnostics, or choose another algorithm."
      )
    self._process = process
    self._exchange = process.algorithm.exchanges[numbers[0]]
    self._shapes = [w.shape for w in process.model.initial_weights]
    self.message_type = process.compiled_exchanges[numbers[0]].types.message
    self.message = _message(process, numbers[0])
    self.batches_type = tff.types.to_type(
      StepBatches(
        tff.types.tensorflow_to_type(process.model.batch_spec),
        tff.types.TensorType(np.int32, [None]),
      )
    )

  def client(self, t: tf.Tensor, client: ClientInput) -> Client:
    """The client in round t."""
    return self._process.make_client(t, client)

  def start(self, message: Message, t: tf.Tensor, client: ClientInput) -> StepsCall:
    """The client's step function, and its carry before the first step."""
    intercepting = self._process.make_client(t, client, _StopBeforeSteps)
    return self._intercept(intercepting, message, client.state)

  def end(self, message: Message, t: tf.Tensor, client: ClientInput) -> Carry:
    """The client's carry after its last step."""
    intercepting = self._process.make_client(t, client, _StopAfterSteps)
    return self._intercept(intercepting, message, client.state).carry

  def read_batches(self, t: tf.Tensor, client: ClientInput) -> StepBatches:
    """Reads the batches of the client's local steps once; a second pass would shuffle them differently."""

    def empty(spec: tf.TensorSpec) -> tf.Tensor:
      return tf.zeros([0, *(size or 0 for size in spec.shape[1:])], spec.dtype)

    def add(state, batch):
      ends, so_far = state
      joined = tf.cond(
        tf.equal(tf.size(ends), 0),
        lambda: batch,
        lambda: tf.nest.map_structure(lambda a, b: tf.concat([a, b], 0), so_far, batch),
      )
      return tf.concat([ends, [tf.shape(tf.nest.flatten(joined)[0])[0]]], 0), joined

    nothing = tf.nest.map_structure(empty, self._process.model.batch_spec)
    batches = self.client(t, client).step_batches()
    ends, joined = batches.reduce((tf.zeros([0], tf.int32), nothing), add)
    return StepBatches(joined, ends)

  def take_step(
    self,
    step: Step,
    carry: Carry,
    k: tf.Tensor,
    batches: StepBatches,
    t: tf.Tensor,
    client: ClientInput,
  ) -> Carry:
    """The client's carry after step k, taken from `carry`; `carry` itself if it takes fewer steps."""
    handle, batch = self.client(t, client), _batch(batches, k)

    def grad(y: Weights) -> Weights:
      return handle.step_gradient(y, batch, k)

    return trees.where(tf.cast(k, tf.float32) < handle.num_steps, step(carry, grad), carry)

  def iterate(self, carry: Carry) -> Weights:
    """y: the first part of a carry that has the shapes of the model's weights.

    Raises:
      ValueError: if the carry holds no model.
    """
    found = _first_with_shapes(carry, self._shapes)
    if found is None:
      raise ValueError(f"Expected local steps whose carry contains the model; found {carry}.")
    return found

  def iterate_position(self, carry: Carry) -> int:
    """The position of y's first tensor in the flattened carry."""
    first, *_ = self.iterate(carry)
    return next(n for n, leaf in enumerate(tf.nest.flatten(carry)) if leaf is first)

  def _intercept(self, client: Client, message: Message, state: ClientState) -> StepsCall:
    try:
      self._exchange.client_update(client, message, state)
    except _InterceptedError as intercepted:
      return intercepted.call
    raise AssertionError("build_process checks that such a client_update calls Client.steps.")


class _InterceptedError(Exception):
  """Ends a `client_update` at its call of `Client.steps`."""

  def __init__(self, call: StepsCall):
    super().__init__()
    self.call = call


class _StopBeforeSteps(Client):
  def steps(self, step, start):
    raise _InterceptedError(StepsCall(step, start))


class _StopAfterSteps(Client):
  def steps(self, step, start):
    raise _InterceptedError(StepsCall(step, super().steps(step, start)))


def _batch(batches: StepBatches, k: tf.Tensor) -> Batch:
  """Batch k; an empty one if there are fewer."""
  ends = tf.concat([[0], batches.ends, [0]], 0)
  here = tf.minimum(k, tf.size(ends) - 2)
  return tf.nest.map_structure(lambda leaf: leaf[ends[here] : ends[here + 1]], batches.joined)


def _first_with_shapes(part: Any, shapes: list) -> Weights | None:
  if not isinstance(part, list | tuple):
    return None
  if [getattr(leaf, "shape", None) for leaf in part] == shapes:
    return tuple(part)
  return next((y for inner in part if (y := _first_with_shapes(inner, shapes)) is not None), None)


def _message(process: FederatedProcess, number: int) -> tff.Computation:
  """Runs the exchanges before this one, as a round does, and makes its message."""
  state_type, clients_type = process.next.type_signature.parameter

  @tff.federated_computation(state_type, clients_type)
  def message(state, clients):
    server, client_states, weights = state.server, clients.state, None
    for earlier, compiled in enumerate(process.compiled_exchanges[:number]):
      reports, mean = run_exchange(
        compiled, state, earlier, server, clients, client_states, weights
      )
      client_states, weights = reports.state, reports.weight
      total = tff.federated_sum(weights)
      server = tff.federated_map(compiled.server, (server, mean.result, state.round, total))
    return tff.federated_map(process.compiled_exchanges[number].message, (server, state.round))

  return message
