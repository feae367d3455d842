"""One exchange as TFF computations: *message → client update → mean → server update*."""

import collections
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.algorithm import Exchange, RoundInfo
from tff_momentum.client import Client, LocalWork
from tff_momentum.models.model import Model

ROUND = tff.types.TensorType(np.int32)
NOTHING = tff.types.to_type(())


class ExchangeTypes(NamedTuple):
  """What travels in one exchange, and how many bytes of it for each client."""

  message: tff.types.Type
  upload: tff.types.Type
  bytes_down: int
  bytes_up: int


class Stage(NamedTuple):
  """One exchange as TFF computations."""

  message: tff.Computation  # (server state, round) -> message
  client: tff.Computation  # (message, round, *ClientInput[, weight]) -> what the client sends
  aggregation: tff.templates.AggregationProcess
  server: tff.Computation  # (server state, mean, round, total weight) -> server state
  walks: bool  # whether the client takes local steps
  types: ExchangeTypes


def trip(
  stage: Stage, state: Any, number: int, server: Any, clients: Any, client_states: Any, weights: Any
) -> tuple[Any, Any]:
  """One exchange inside a federated computation: what the clients send, and the mean of the uploads.

  Args:
    stage: the exchange, the `number`-th of the round.
    state: the process's at the start of the round.
    number: from 0.
    server: the algorithm's own state by now.
    clients: what they bring to the round.
    client_states: their states by now.
    weights: theirs in the mean, as the exchange before left them; None in the first, which gives them.
  """
  message = tff.federated_map(stage.message, (server, state.round))
  sent = tff.federated_map(
    stage.client,
    (
      tff.federated_broadcast(message),
      tff.federated_broadcast(state.round),
      clients.seed,
      client_states,
      clients.data,
      clients.steps,
      clients.staleness,
      *([weights] if number else []),
    ),
  )
  weighted = [sent.weight] if stage.aggregation.is_weighted else []
  return sent, stage.aggregation.next(state.aggregators[number], sent.upload, *weighted)


def compile_exchange(
  exchange: Exchange,
  weighting: str,
  model: Model,
  work: LocalWork,
  factory,
  server_type,
  client_type,
  *,
  first: bool,
  non_finite: str,
) -> Stage:
  """Compiles an exchange; `first` of a round is the one that gives the clients their weights."""
  walks = False

  @tff.tensorflow.computation(server_type, ROUND)
  def message(server, t):
    return exchange.message(server, t)

  def client_work(message, t, seed, state, data, steps, staleness, weight=None):
    nonlocal walks
    started = t - staleness if client_type.staleness != NOTHING else t
    client = Client(model, work, data, seed, started, steps if work.uneven else None)
    if exchange.first_round_only:  # later it runs on no data at all, and so costs nothing
      once = data.take(tf.where(tf.equal(t, 0), tf.constant(-1, tf.int64), 0))
      update = exchange.client_update(Client(model, work, once, seed, t), message, state)
    else:
      update = exchange.client_update(client, message, state)
      walks = client.walked
    examples = client.num_examples if weight is None else weight
    present = examples > 0
    counts = present & tf.equal(t, 0) if exchange.first_round_only else present
    broken = counts & ~trees.is_finite((update.upload, update.state))
    if non_finite == "fatal":
      counts = _insist(counts, broken)
    else:
      counts &= ~broken
    if first and weighting == "uniform":
      examples = tf.cast(present, tf.float32)
    result = collections.OrderedDict(
      # Zeros and the old state for a client without data, whose own values may be 0/0.
      upload=trees.where(counts, update.upload, trees.zeros_like(update.upload)),
      state=trees.where(counts, update.state, state),
      weight=tf.where(broken, 0.0, examples) if non_finite == "reject" else examples,
      non_finite=tf.cast(broken, tf.int32),
    )
    if first:
      result["present"] = tf.cast(present & ~broken, tf.int32)
    if client.tally is not None:
      tally = client.tally
      result["tally"] = trees.where(present & ~broken, tally, trees.zeros_like(tally))
    return result

  message_type = message.type_signature.result

  graph_work = tf.function(client_work, autograph=False)
  if first:

    @tff.tensorflow.computation(message_type, ROUND, *client_type)
    def client(message, t, seed, state, data, steps, staleness):
      return graph_work(message, t, seed, state, data, steps, staleness)
  else:

    @tff.tensorflow.computation(message_type, ROUND, *client_type, np.float32)
    def client(message, t, seed, state, data, steps, staleness, weight):
      return graph_work(message, t, seed, state, data, steps, staleness, weight)

  upload_type = client.type_signature.result.upload
  _require_floats(upload_type)
  if not tf.nest.flatten(specs(upload_type)):
    factory = tff.aggregators.MeanFactory()  # of nothing; another factory may insist on tensors
  if isinstance(factory, tff.aggregators.WeightedAggregationFactory):
    aggregation = factory.create(upload_type, tff.types.TensorType(np.float32))
  else:
    aggregation = factory.create(upload_type)

  @tff.tensorflow.computation(
    server_type, aggregation.next.type_signature.result.result.member, ROUND, np.float32
  )
  def server(state, mean, t, weight):
    new = exchange.server_update(state, mean, RoundInfo(t, weight))
    return trees.where(tf.equal(t, 0), new, state) if exchange.first_round_only else new

  return Stage(
    message,
    client,
    aggregation,
    server,
    walks,
    ExchangeTypes(
      message=message_type,
      upload=upload_type,
      bytes_down=exchange.download_bytes(specs(message_type)),
      bytes_up=exchange.upload_bytes(specs(upload_type)),
    ),
  )


def _insist(counts: tf.Tensor, broken: tf.Tensor) -> tf.Tensor:
  """`counts`, once it is known that nothing is broken."""
  message = (
    "Expected an update of finite numbers; found infinities or NaN. Lower the learning rate."
  )
  with tf.control_dependencies([tf.debugging.Assert(~broken, [message], name="finite_update")]):
    return tf.identity(counts)


def specs(type_spec: tff.types.Type) -> Any:
  """The `tf.TensorSpec`s of a type; an empty tuple for nothing at all."""
  return (
    tff.types.type_to_tf_tensor_specs(type_spec)
    if len(type_spec) or not isinstance(type_spec, tff.types.StructType)
    else ()
  )


def _require_floats(upload_type: tff.types.Type) -> None:
  for spec in tf.nest.flatten(specs(upload_type)):
    if not spec.dtype.is_floating:
      raise ValueError(
        f"Expected uploads of floating-point tensors, which have a mean; found {upload_type}."
      )
