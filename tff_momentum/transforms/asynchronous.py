"""Any algorithm whose clients keep no state, for clients that start in one round and finish in a later one.

A round is one server step; its clients started up to `max_staleness` rounds earlier. Besides the algorithm's
own state, the server keeps the messages of the last `max_staleness` rounds in one ring buffer per exchange. A
client uses the message, and the client learning rate, of the round in which it started. A real client
downloads only that message, so the byte counts include one message.
"""

import collections
import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, RoundInfo
from tff_momentum.client import Client, LocalWork
from tff_momentum.models.model import Model, Tally


class ServerState(NamedTuple):
  """The algorithm's own state, and the messages that clients may still be working on.

  Attributes:
    inner: the algorithm's own state.
    past: for each exchange its last messages, stacked along a first dimension of `max_staleness`.
    versions: the round of each of them; −1 for an empty slot.
  """

  inner: Any
  past: tuple[Any, ...]
  versions: Any


class Message(NamedTuple):
  """The message of this round, those of the last rounds, and their round numbers."""

  now: Any
  past: Any
  versions: Any


def asynchronous(algorithm: Algorithm, max_staleness: int) -> Algorithm:
  """Returns the same algorithm for clients that started up to `max_staleness` rounds ago.

  Each client's input then gives its `ClientInput.staleness`.

  Example:
    >>> import tff_momentum as tfm
    >>> tfm.asynchronous(tfm.algorithms.fedavg(client_learning_rate=0.1), max_staleness=5)
    Algorithm(fedavg(client_learning_rate=0.1), 1 exchange per round, max_staleness=5)

  Args:
    algorithm: a synchronous algorithm without client state.
    max_staleness: the largest staleness, at least 1.

  Raises:
    ValueError: if the algorithm is asynchronous already, or its clients keep state: the papers do not define
      such an algorithm for clients that finish late.
  """
  validation.integer("max_staleness", max_staleness, at_least=1)
  if algorithm.max_staleness:
    raise ValueError("Expected a synchronous algorithm; found an asynchronous one.")
  with (
    tf.Graph().as_default()
  ):  # an eager tensor would start TensorFlow, which fixes its thread counts
    client_state = algorithm.init_client((tf.zeros([1]),), tf.zeros([2], tf.int32))
  if tf.nest.flatten(client_state):
    raise ValueError(
      "Expected an algorithm whose clients keep no state to run asynchronously; found one whose clients do: "
      "choose another algorithm, or run it in synchronous rounds."
    )

  def init_server(x):
    past = tf.nest.map_structure(
      lambda spec: tf.zeros([max_staleness, *spec.shape], spec.dtype), _message_specs(algorithm, x)
    )
    return ServerState(algorithm.init_server(x), past, tf.fill([max_staleness], -1))

  def late(number: int, exchange: Exchange) -> Exchange:
    def message(state, t):
      return Message(exchange.message(state.inner, t), state.past[number], state.versions)

    def client_update(client, message, state):
      return exchange.client_update(client, _at_version(message, client.round), state)

    def server_update(state, mean, info):
      slot = [[info.round % max_staleness]]

      def push(ring, new):
        return tf.tensor_scatter_nd_update(ring, slot, new[tf.newaxis])

      past = list(state.past)
      past[number] = trees.map(push, past[number], exchange.message(state.inner, info.round))
      versions = state.versions
      if number == len(algorithm.exchanges) - 1:
        versions = push(versions, info.round)
      return ServerState(exchange.server_update(state.inner, mean, info), tuple(past), versions)

    return dataclasses.replace(
      exchange,
      message=message,
      client_update=client_update,
      server_update=server_update,
      download_bytes=lambda specs: exchange.download_bytes(specs.now),
    )

  momentum = algorithm.momentum
  return dataclasses.replace(
    algorithm,
    init_server=init_server,
    exchanges=tuple(late(*each) for each in enumerate(algorithm.exchanges)),
    model=lambda state: algorithm.model(state.inner),
    momentum=momentum and (lambda state, t, steps: momentum(state.inner, t, steps)),
    max_staleness=max_staleness,
  )


def _at_version(message: Message, version: tf.Tensor) -> Any:
  """The message that a client downloaded if it started in this round.

  It is the oldest stored message of that round or a later one: a round without clients changes nothing and
  stores no message, so its message equals that of the next round.
  """
  never = tf.int32.max
  since = tf.where(message.versions >= version, message.versions, never)
  slot = tf.argmin(tf.cast(since, tf.float64))  # exact; GPUs have no kernel for integers
  is_past = since[slot] < never
  return trees.map(lambda ring, now: tf.where(is_past, ring[slot], now), message.past, message.now)


def _message_specs(algorithm: Algorithm, x: Any) -> tuple[Any, ...]:
  """The types of the messages of a round's exchanges, found by tracing a round with an empty client."""

  def one_round(*x):
    t, state, messages = tf.zeros([], tf.int32), algorithm.init_server(x), []
    client = Client(_no_model(x), LocalWork(), _no_data(), tf.zeros([2], tf.int32), t)
    for exchange in algorithm.exchanges:
      messages.append(exchange.message(state, t))
      upload = exchange.client_update(client, messages[-1], ()).upload
      state = exchange.server_update(state, upload, RoundInfo(t, tf.zeros([])))
    return tuple(messages)

  specs = [tf.TensorSpec(w.shape, w.dtype) for w in x]
  return tf.function(one_round, autograph=False).get_concrete_function(*specs).structured_outputs


def _no_data() -> tf.data.Dataset:
  return tf.data.Dataset.from_tensor_slices((tf.zeros([0]), tf.zeros([0]))).batch(1)


def _no_model(x: Any) -> Model:
  """A model that only has weights; its gradients have their types."""

  def empty_tally() -> Tally:
    return Tally(tf.zeros([]), tf.zeros([]), ())

  return Model(
    initial_weights=x,
    batch_spec=_no_data().element_spec,
    value_and_grad=lambda weights, batch, seed: (empty_tally(), weights),
    evaluate=lambda weights, batch: empty_tally(),
    empty_tally=empty_tally,
    finalize_metrics=lambda sums: collections.OrderedDict(),
  )
