"""An algorithm's own local steps, seen from outside: where a client stands, and one step at a time.

An algorithm hands its step to `Client.steps` and its records say nothing else of it. So a measure runs the
algorithm's own `client_update` with a client that stops there, and takes the steps itself.
"""

from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum.algorithm import Exchange
from tff_momentum.exchanges import trip
from tff_momentum.local import Client
from tff_momentum.process import ClientInput, FederatedProcess


class Walk(NamedTuple):
  """What an algorithm gave to `Client.steps`: its step, and a carry (the first one, unless said)."""

  step: Any
  start: Any


class _Reached(Exception):
  def __init__(self, walk: Walk):
    super().__init__()
    self.walk = walk


class _Starting(Client):
  """A client that stops where its local steps would begin, and knows whether it has read its data."""

  has_read = False

  def steps(self, step, start):
    raise _Reached(Walk(step, start))

  @property
  def num_examples(self):
    self.has_read = True
    return super().num_examples

  def _fold(self, *arguments):
    self.has_read = True
    return super()._fold(*arguments)


class _Ending(Client):
  """A client that stops where its local steps have led."""

  def steps(self, step, start):
    raise _Reached(Walk(step, super().steps(step, start)))


class _OneStep(Client):
  """A client that takes one of its local steps, number `k`, and none where it has fewer."""

  def __init__(self, k: tf.Tensor, *client: Any):
    super().__init__(*client)
    self._k = tf.cast(k, tf.int64)
    # An epoch's last batch may be a smaller one, which is not worth compiling for.
    within, value_and_grad = self._k % tf.maximum(self._batches(), 1), self._value_and_grad
    full = within < self._batches() - 1
    self._value_and_grad = lambda y, batch, seed, _: value_and_grad(y, batch, seed, full)

  def _first(self, count):
    return super()._first(count).skip(self._k).take(1)

  def _batch_seed(self, k):
    return super()._batch_seed(self._k + k)


class LocalSteps:
  """The exchange of a process in which its clients take local steps.

  Raises ValueError where there is none, or where clients do not start from one model.

  Attributes:
    message_type: the TFF type of what the clients download in it.
    message: TFF computation (process state@SERVER, clients@CLIENTS) -> that message@SERVER.
    read_data: whether the clients have read their data once before their first step; known after `begin`.
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
    self.read_data = False
    self._carry: Any = None  # its structure matters alone
    self._exchange: Exchange = process.algorithm.exchanges[walks[0]]
    self.message_type = process.stages[walks[0]].message.type_signature.result
    self.message = _message(process, walks[0])

  def client(self, t: tf.Tensor, client: ClientInput) -> Client:
    """A client of the process in round t."""
    return Client(*self._arguments(t, client))

  def begin(self, message: Any, t: tf.Tensor, client: ClientInput) -> Walk:
    """The step that the client would take, and where from."""
    starting = _Starting(*self._arguments(t, client))
    walk = self._reach(starting, message, client.state)
    self.read_data, self._carry = starting.has_read, walk.start
    return walk

  def end(self, message: Any, t: tf.Tensor, client: ClientInput) -> Any:
    """The carry that all the client's steps lead to."""
    return self._reach(_Ending(*self._arguments(t, client)), message, client.state).start

  def one_step(self, k: tf.Tensor, t: tf.Tensor, client: ClientInput) -> Client:
    """A client whose `steps` takes step k alone, on the batch of that step."""
    return _OneStep(k, *self._arguments(t, client))

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
