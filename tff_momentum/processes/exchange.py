"""One exchange as TFF computations: *message → client update → mean → server update*."""

import collections
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.algorithm import ClientState, Exchange, RoundInfo
from tff_momentum.client import Client, LocalWork
from tff_momentum.models.model import Model

ROUND = tff.types.TensorType(np.int32)
NOTHING = tff.types.to_type(())

AggregatorFactory: TypeAlias = (
  tff.aggregators.UnweightedAggregationFactory | tff.aggregators.WeightedAggregationFactory
)
Placed: TypeAlias = Any  # a value with a placement inside a federated computation


class ExchangeTypes(NamedTuple):
  """What travels in one exchange.

  Attributes:
    message: the TFF type of what a client downloads.
    upload: the TFF type of what a client uploads.
    bytes_down: the size of the message, per client.
    bytes_up: the size of the upload, per client.
  """

  message: tff.types.Type
  upload: tff.types.Type
  bytes_down: int
  bytes_up: int


class CompiledExchange(NamedTuple):
  """One exchange as TFF computations.

  Attributes:
    exchange: what was compiled.
    message: (server state, round) -> message.
    client: (message, round, *`ClientInput`[, weight]) -> the client's report: its upload, new state and
      weight, whether the update was finite, and its training metrics (`tally`) if the exchange reports them.
    aggregation: the mean of the uploads, or the aggregator in its place.
    server: (server state, mean, round, total weight) -> server state.
    types: what travels.
  """

  exchange: Exchange
  message: tff.Computation
  client: tff.Computation
  aggregation: tff.templates.AggregationProcess
  server: tff.Computation
  types: ExchangeTypes


def run_exchange(
  compiled: CompiledExchange,
  state: Placed,
  number: int,
  server: Placed,
  clients: Placed,
  client_states: Placed,
  weights: Placed | None,
) -> tuple[Placed, Placed]:
  """Runs one exchange inside a federated computation, up to the mean of the uploads.

  Args:
    compiled: the exchange.
    state: the `ProcessState` at the start of the round.
    number: the position of the exchange in the round, counted from 0.
    server: the algorithm's server state at this point of the round.
    clients: the clients' inputs.
    client_states: the clients' states at this point of the round.
    weights: the clients' weights in the mean, from the previous exchange; None in the first exchange, which
      computes them.

  Returns:
    The clients' reports, and the output of the aggregation.
  """
  message = tff.federated_map(compiled.message, (server, state.round))
  reports = tff.federated_map(
    compiled.client,
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
  weighted = [reports.weight] if compiled.aggregation.is_weighted else []
  return reports, compiled.aggregation.next(state.aggregators[number], reports.upload, *weighted)


def compile_exchange(
  exchange: Exchange,
  weighting: str,
  model: Model,
  work: LocalWork,
  factory: AggregatorFactory,
  server_type: tff.types.Type,
  client_type: tff.types.StructType,
  *,
  first: bool,
  non_finite: str,
) -> CompiledExchange:
  """Compiles an exchange.

  Args:
    exchange: the record of functions.
    weighting: the algorithm's `client_weighting`.
    model: the model to train.
    work: the clients' local work.
    factory: makes the aggregation of the uploads.
    server_type: the type of the server state before the exchange.
    client_type: the type of `ClientInput`.
    first: whether it is the round's first exchange, which computes the clients' weights.
    non_finite: how to treat updates with infinities or NaN (see `build_process`).

  Raises:
    ValueError: if `client_update` does other work than the exchange declares, uploads integers, or returns
      another type of state than it gets.
  """

  @tff.tensorflow.computation(server_type, ROUND)
  def message(server, t):
    return exchange.message(server, t)

  def report(message, t, seed, state, data, steps, staleness, weight=None):
    started = t - staleness if client_type.staleness != NOTHING else t
    client = Client(model, work, data, seed, started, steps if work.uneven else None)
    if (
      exchange.first_round_only
    ):  # in later rounds it runs on an empty data set, which costs nothing
      once = data.take(tf.where(tf.equal(t, 0), tf.constant(-1, tf.int64), 0))
      worker = Client(model, work, once, seed, t)
    else:
      worker = client
    update = exchange.client_update(worker, message, state)
    _check_client_work(exchange, worker)
    _check_client_state(state, update.state)
    examples = client.num_examples if weight is None else weight
    present = examples > 0
    counts = present & tf.equal(t, 0) if exchange.first_round_only else present
    broken = counts & ~trees.is_finite((update.upload, update.state))
    if non_finite == "fatal":
      counts = _require_finite(counts, broken)
    else:
      counts &= ~broken
    if first and weighting == "uniform":
      examples = tf.cast(present, tf.float32)
    result = collections.OrderedDict(
      # A client without data uploads zeros and keeps its state: its own values may be 0/0.
      upload=trees.where(counts, update.upload, trees.zeros_like(update.upload)),
      state=trees.where(counts, update.state, state),
      weight=tf.where(broken, 0.0, examples) if non_finite == "reject" else examples,
      non_finite=tf.cast(broken, tf.int32),
    )
    if first:
      result["present"] = tf.cast(present & ~broken, tf.int32)
    if exchange.reports_metrics:
      tally = client.tally
      result["tally"] = trees.where(present & ~broken, tally, trees.zeros_like(tally))
    return result

  message_type = message.type_signature.result

  report_in_graph = tf.function(report, autograph=False)
  if first:

    @tff.tensorflow.computation(message_type, ROUND, *client_type)
    def client(message, t, seed, state, data, steps, staleness):
      return report_in_graph(message, t, seed, state, data, steps, staleness)
  else:

    @tff.tensorflow.computation(message_type, ROUND, *client_type, np.float32)
    def client(message, t, seed, state, data, steps, staleness, weight):
      return report_in_graph(message, t, seed, state, data, steps, staleness, weight)

  upload_type = client.type_signature.result.upload
  _require_floats(upload_type)
  if not tf.nest.flatten(specs(upload_type)):
    factory = tff.aggregators.MeanFactory()  # for an empty upload, which other factories may refuse
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

  return CompiledExchange(
    exchange,
    message,
    client,
    aggregation,
    server,
    ExchangeTypes(
      message=message_type,
      upload=upload_type,
      bytes_down=exchange.download_bytes(specs(message_type)),
      bytes_up=exchange.upload_bytes(specs(upload_type)),
    ),
  )


def _check_client_work(exchange: Exchange, client: Client) -> None:
  """Raises ValueError unless the client did what its exchange declares."""
  without_steps = "none" if client.tally is None else "full_gradient"
  found = "local_steps" if client.took_steps else without_steps
  if found != exchange.client_work:
    raise ValueError(
      f"Expected a client_update with client_work={exchange.client_work!r}, as its Exchange declares; found "
      f"one with {found!r}: write Exchange(..., client_work={found!r}), or change the client_update."
    )


def _check_client_state(before: ClientState, after: ClientState) -> None:
  """Raises ValueError unless the client's new state has the shapes and dtypes of its old one."""
  expected, found = (
    [(tensor.dtype.name, tensor.shape) for tensor in map(tf.convert_to_tensor, tf.nest.flatten(s))]
    for s in (before, after)
  )
  same = len(expected) == len(found) and all(
    a[0] == b[0] and a[1].is_compatible_with(b[1]) for a, b in zip(expected, found, strict=True)
  )
  if not same:
    said = [
      ", ".join(f"{name}{shape}" for name, shape in kind) or "none" for kind in (expected, found)
    ]
    raise ValueError(
      f"Expected client_update to return the type of state that init_client returns, {said[0]}; found "
      f"{said[1]}: return the same structure, shapes and dtypes."
    )


def _require_finite(counts: tf.Tensor, broken: tf.Tensor) -> tf.Tensor:
  """Returns `counts`; fails when executed if the update is broken."""
  message = (
    "Expected an update of finite numbers; found infinities or NaN. Lower the learning rate."
  )
  with tf.control_dependencies([tf.debugging.Assert(~broken, [message], name="finite_update")]):
    return tf.identity(counts)


def specs(type_spec: tff.types.Type) -> Any:
  """The `tf.TensorSpec`s of a type; an empty tuple for the empty structure."""
  if isinstance(type_spec, tff.types.StructType) and not len(type_spec):
    return ()  # for which TFF raises an error
  return tff.types.type_to_tf_tensor_specs(type_spec)


def _require_floats(upload_type: tff.types.Type) -> None:
  for spec in tf.nest.flatten(specs(upload_type)):
    if not spec.dtype.is_floating:
      raise ValueError(
        "Expected an upload of floating-point tensors, because the server gets their mean; found "
        f"{upload_type}: cast integers to tf.float32."
      )
