"""An algorithm's own local steps, seen from outside: where a client stands, and one step at a time.

An algorithm hands its step to `Client.steps` and its records say nothing else of it. So a measure runs the
algorithm's own `client_update` with a client that stops there, and takes the steps itself.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.algorithm import Exchange
from tff_momentum.client import Client
from tff_momentum.processes.exchange import trip
from tff_momentum.processes.process import ClientInput, FederatedProcess


class Walk(NamedTuple):
  """What an algorithm gave to `Client.steps`: its step, and a carry (the first one, unless said)."""

  step: Any
  start: Any


class Batches(NamedTuple):
  """The batches of a client's local steps, put together; batch k ends before the example `ends[k]`."""

  joined: Any
  ends: Any


class _Reached(Exception):
  def __init__(self, walk: Walk):
    super().__init__()
    self.walk = walk


class _Starting(Client):
  """A client that stops where its local steps would begin."""

  def steps(self, step, start):
    raise _Reached(Walk(step, start))


class _Ending(Client):
  """A client that stops where its local steps have led."""

  def steps(self, step, start):
    raise _Reached(Walk(step, super().steps(step, start)))


class _Collecting(Client):
  """A client that reads the batches of all its local steps, in order."""

  def batches(self):
    """The batches put together, and where each of them ends."""
    spec = self._model.batch_spec
    nothing = tf.nest.map_structure(
      lambda leaf: tf.zeros([0, *(size or 0 for size in leaf.shape[1:])], leaf.dtype), spec
    )

    def add(state, batch):
      ends, so_far = state
      joined = tf.cond(
        tf.equal(tf.size(ends), 0),
        lambda: batch,
        lambda: tf.nest.map_structure(lambda a, b: tf.concat([a, b], 0), so_far, batch),
      )
      return tf.concat([ends, [tf.shape(tf.nest.flatten(joined)[0])[0]]], 0), joined

    start = (tf.zeros([0], tf.int32), nothing)
    ends, joined = self._first(self._steps_to_take()).reduce(start, add)
    return Batches(joined, ends)


class _OneStep(Client):
  """A client that takes one of its local steps, number `k`, and none where it has fewer."""

  def __init__(self, k: tf.Tensor, batches: Batches, *client: Any):
    super().__init__(*client)
    self._k, (joined, ends) = k, batches
    ends = tf.concat([[0], ends, [0]], 0)
    here = tf.minimum(k, tf.size(ends) - 2)
    self._batch = tf.nest.map_structure(lambda leaf: leaf[ends[here] : ends[here + 1]], joined)

  def steps(self, step, start):
    # An epoch's last batch may be a smaller one, which is not worth compiling for.
    k, several = tf.cast(self._k, tf.int64), tf.maximum(self._batches(), 1)
    full = k % several < several - 1

    def grad(y):
      _, g = self._value_and_grad(y, self._batch, self._batch_seed(k), tfm_full_batch=full)
      return self._with_weight_decay(g, y)

    return trees.where(k < self._steps_to_take(), step(start, grad), start)


class LocalSteps:
  """The exchange of a process in which its clients take local steps.

  Raises ValueError where there is none, or where clients do not start from one model.

  Attributes:
    message_type: the TFF type of what the clients download in it.
    message: TFF computation (process state@SERVER, clients@CLIENTS) -> that message@SERVER.
    batches_type: the TFF type of `Batches`.
  """

  def __init__(self, process: FederatedProcess):
    walks = [number for number, stage in enumerate(process.stages) if stage.walks]
    if not walks:
      raise ValueError(
        "drift, cosine and alpha compare local steps, and the clients of this algorithm take none; "
        "leave them out of --diagnostics, or choose another algorithm."
      )
    if process.algorithm.max_staleness:
      raise ValueError(
        "drift, cosine and alpha compare clients that start from one model, and those of an asynchronous "
        "algorithm do not; leave them out of --diagnostics, or choose another algorithm."
      )
    self._process = process
    self.batches_type = tff.types.to_type(
      Batches(
        tff.types.tensorflow_to_type(process.model.batch_spec),
        tff.types.TensorType(np.int32, [None]),
      )
    )
    self._carry: Any = None  # its structure matters alone
    self._exchange: Exchange = process.algorithm.exchanges[walks[0]]
    self.message_type = process.stages[walks[0]].message.type_signature.result
    self.message = _message(process, walks[0])

  def client(self, t: tf.Tensor, client: ClientInput) -> Client:
    """A client of the process in round t."""
    return Client(*self._arguments(t, client))

  def begin(self, message: Any, t: tf.Tensor, client: ClientInput) -> Walk:
    """The step that the client would take, and where from."""
    walk = self._reach(_Starting(*self._arguments(t, client)), message, client.state)
    self._carry = walk.start
    return walk

  def end(self, message: Any, t: tf.Tensor, client: ClientInput) -> Any:
    """The carry that all the client's steps lead to."""
    return self._reach(_Ending(*self._arguments(t, client)), message, client.state).start

  def batches(self, t: tf.Tensor, client: ClientInput) -> Batches:
    """Reads the batches of the client's local steps: its data is shuffled anew when it is read again."""
    return _Collecting(*self._arguments(t, client)).batches()

  def one_step(self, k: tf.Tensor, batches: Batches, t: tf.Tensor, client: ClientInput) -> Client:
    """A client whose `steps` takes step k alone, on the batch of that step."""
    return _OneStep(k, batches, *self._arguments(t, client))

  def iterate(self, carry: Any) -> Any:
    """y, the first part of a carry that has the model's shapes."""
    found = _first_like(carry, [w.shape for w in self._process.model.initial_weights])
    if found is None:
      raise ValueError(f"Expected local steps that carry a model with them; found none in {carry}.")
    return found

  def unpacked(self, leaves: Any) -> Any:
    """y, from a carry as a flat list; `begin` must have been called before, on whatever client."""
    return self.iterate(tf.nest.pack_sequence_as(self._carry, leaves))

  def _reach(self, client: Client, message: Any, state: Any) -> Walk:
    try:
      self._exchange.client_update(client, message, state)
    except _Reached as reached:
      return reached.walk
    raise AssertionError("An exchange that walks must call Client.steps.")

  def _arguments(self, t: tf.Tensor, client: ClientInput) -> tuple:
    own_steps = client.steps if self._process.takes_steps else None
    return self._process.model, self._process.work, client.data, client.seed, t, own_steps


def _first_like(part: Any, shapes: list) -> Any:
  if not isinstance(part, list | tuple):
    return None
  if [getattr(leaf, "shape", None) for leaf in part] == shapes:
    return tuple(part)
  return next((y for inner in part if (y := _first_like(inner, shapes)) is not None), None)


def _message(process: FederatedProcess, walking: int) -> tff.Computation:
  """Goes through the exchanges before the one that walks, as a round does."""
  state_type, clients_type = process.next.type_signature.parameter

  @tff.federated_computation(state_type, clients_type)
  def message(state, clients):
    server, client_states, weights = state.server, clients.state, None
    for number, stage in enumerate(process.stages[:walking]):
      sent, mean = trip(stage, state, number, server, clients, client_states, weights)
      client_states, weights = sent.state, sent.weight
      total = tff.federated_sum(weights)
      server = tff.federated_map(stage.server, (server, mean.result, state.round, total))
    return tff.federated_map(process.stages[walking].message, (server, state.round))

  return message
