"""The one place that turns an `Algorithm` into a `tff.templates.IterativeProcess`.

    next(state, clients) -> RoundOutput(state, clients, metrics)

with `state: ProcessState@SERVER`, `clients: {ClientInput}@CLIENTS` and the clients' new states coming
back in the same order. All types are explicit: `FederatedProcess` names the algorithm's server state,
client state, messages and uploads, and bytes on the wire are computed from them.
"""

import collections
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees, validation, wire_bytes
from tff_momentum.algorithm import Algorithm
from tff_momentum.client import LocalWork
from tff_momentum.models.model import Model
from tff_momentum.processes.exchange import (
  NOTHING,
  ROUND,
  ExchangeTypes,
  Stage,
  compile_exchange,
  specs,
  trip,
)
from tff_momentum.processes.functional_model import as_model


class ProcessState(NamedTuple):
  """The whole state of a process: what a checkpoint holds beside the clients' states."""

  round: Any
  server: Any  # the algorithm's own state
  aggregators: Any  # one for each exchange


class ClientInput(NamedTuple):
  """What a client brings to a round: a seed of its own, the state it kept, and its batches.

  Attributes:
    steps: K_i, int32, where the process was built for uneven work (`LocalWork.uneven`); 0 means the
      usual number.
    staleness: int32, how many rounds ago the client started, where the algorithm is asynchronous.
  """

  seed: Any
  state: Any
  data: Any
  steps: Any = ()
  staleness: Any = ()


class RoundOutput(NamedTuple):
  """What a round gives back."""

  state: Any
  clients: Any  # the clients' new states, in the order of the cohort
  metrics: Any


class FederatedProcess(tff.templates.IterativeProcess):
  """An iterative process that knows its types and what it sends.

  Attributes:
    algorithm: what it was built from.
    model: the model that it trains.
    work: what its clients do in a round.
    stages: its exchanges as TFF computations, in order.
    server_state_type, client_state_type: TFF types of the algorithm's own states.
    takes_steps, takes_staleness: whether each `ClientInput` must say so many.
    exchanges: the types and sizes of what travels in each exchange of an ordinary round.
    first_round_exchanges: the same for exchanges that take place in round 0 alone.
  """

  def __init__(
    self,
    initialize,
    next_fn,
    *,
    algorithm: Algorithm,
    model: Model,
    work: LocalWork,
    client_type: tff.types.StructType,
    stages: Sequence[Stage],
  ):
    super().__init__(initialize, next_fn, next_is_multi_arg=True)
    once = [exchange.first_round_only for exchange in algorithm.exchanges]
    self.algorithm = algorithm
    self.model = model
    self.work = work
    self.stages = tuple(stages)
    self.server_state_type = initialize.type_signature.result.member.server
    self.client_state_type = client_type.state
    self.takes_steps = client_type.steps != NOTHING
    self.takes_staleness = client_type.staleness != NOTHING
    self.exchanges = tuple(s.types for s, o in zip(stages, once, strict=True) if not o)
    self.first_round_exchanges = tuple(s.types for s, o in zip(stages, once, strict=True) if o)

  def bytes_down(self, round_number: int) -> int:
    """What each client downloads in this round."""
    return sum(e.bytes_down for e in self._exchanges_of(round_number))

  def bytes_up(self, round_number: int) -> int:
    """What each client uploads in this round."""
    return sum(e.bytes_up for e in self._exchanges_of(round_number))

  @property
  def client_state_bytes(self) -> int:
    """What each client keeps between its rounds."""
    return wire_bytes.dense_bytes(specs(self.client_state_type))

  def weights(self, state: ProcessState) -> Any:
    """The model's weights in a state."""
    return self.algorithm.model(state.server)

  def initial_client_state(self, seed: Any) -> Any:
    """The state of a client that was never seen before."""
    if self._common_client_state is not None:
      return self._common_client_state
    return self.algorithm.init_client(self._initial_weights, tf.constant(seed, tf.int32))

  @functools.cached_property
  def _initial_weights(self) -> tuple[tf.Tensor, ...]:
    return tuple(tf.constant(w) for w in self.model.initial_weights)

  @functools.cached_property
  def _common_client_state(self) -> Any:
    """The one state that all new clients share, where none depends on its seed; else None."""

    weights, seed = self._initial_weights, tf.zeros([2], tf.int32)

    def init(seed):
      return self.algorithm.init_client(weights, seed)

    traced = tf.function(init, autograph=False).get_concrete_function(seed)
    return None if traced.inputs[0].consumers() else init(seed)

  def _exchanges_of(self, round_number: int) -> tuple[ExchangeTypes, ...]:
    return self.exchanges + (self.first_round_exchanges if round_number == 0 else ())


NON_FINITE = ("reject", "zero", "fatal")
_SEED = tff.types.TensorType(np.int32, (2,))


def build_process(
  algorithm: Algorithm,
  model: Any,
  *,
  work: LocalWork | None = None,
  aggregator: Any = None,
  non_finite: str = "reject",
) -> FederatedProcess:
  """Compiles an algorithm into a TFF iterative process.

  Args:
    algorithm: the record of functions.
    model: a `Model` or a `tff.learning.models.FunctionalModel`.
    work: how many local epochs or steps, and the weight decay.
    aggregator: a `tff.aggregators` factory, weighted or not, that takes the place of the mean.
    non_finite: what becomes of a client's update that holds infinities or NaN, beside being counted:
      "reject" leaves the client out, "zero" lets it count as one that did not move, "fatal" raises.
      In all cases the client keeps its state.
  """
  validation.one_of("non_finite", non_finite, NON_FINITE)
  model, work = algorithm.prepare_model(as_model(model)), work or LocalWork()
  factory = aggregator or tff.aggregators.MeanFactory(no_nan_division=True)

  @tff.tensorflow.computation
  def initial_server():
    return algorithm.init_server(tuple(tf.constant(w) for w in model.initial_weights))

  server_type = initial_server.type_signature.result
  client_type = tff.types.to_type(
    ClientInput(
      _SEED,
      _client_state_type(algorithm, model),
      tff.types.SequenceType(tff.types.tensorflow_to_type(model.batch_spec)),
      steps=tff.types.TensorType(np.int32) if work.uneven else NOTHING,
      staleness=tff.types.TensorType(np.int32) if algorithm.max_staleness else NOTHING,
    )
  )
  exchanges: list[Stage] = []
  state_type = server_type
  for exchange in algorithm.exchanges:
    exchanges.append(
      compile_exchange(
        exchange,
        algorithm.client_weighting,
        model,
        work,
        factory,
        state_type,
        client_type,
        first=not exchanges,
        non_finite=non_finite,
      )
    )
    state_type = exchanges[-1].server.type_signature.result
  if not server_type.is_assignable_from(state_type):
    raise ValueError(
      "Expected the last server_update to return the type of state that init_server "
      f"returns, {server_type}; found {state_type}."
    )
  measured = _measured(exchanges)

  @tff.tensorflow.computation(exchanges[measured].client.type_signature.result.tally)
  def finalize_metrics(tally):
    return model.finalize(tally)

  @tff.tensorflow.computation(server_type, server_type, np.float32, ROUND)
  def finish_round(old, new, weight, t):
    # A round in which nobody had data changes nothing but the count of rounds.
    new = trees.where(weight > 0, new, old)
    return new, t + 1, trees.norm(trees.subtract(algorithm.model(new), algorithm.model(old)))

  @tff.tensorflow.computation([np.int32] * len(exchanges))
  def add(counts):
    return tf.add_n(list(counts))

  @tff.federated_computation
  def initialize():
    return tff.federated_zip(
      ProcessState(
        round=tff.federated_value(np.int32(0), tff.SERVER),
        server=tff.federated_eval(initial_server, tff.SERVER),
        aggregators=tuple(e.aggregation.initialize() for e in exchanges),
      )
    )

  @tff.federated_computation(
    initialize.type_signature.result, tff.types.FederatedType(client_type, tff.CLIENTS)
  )
  def next_fn(state, clients):
    server, client_states, weights = state.server, clients.state, None
    aggregated, tally, broken = [], None, []
    for number, exchange in enumerate(exchanges):
      sent, mean = trip(exchange, state, number, server, clients, client_states, weights)
      client_states, weights = sent.state, sent.weight
      total_weight = tff.federated_sum(weights)
      broken.append(tff.federated_sum(sent.non_finite))
      if number == 0:
        present = tff.federated_sum(sent.present)
      if number == measured:
        tally = tff.federated_sum(sent.tally)
      aggregated.append(mean)
      server = tff.federated_map(exchange.server, (server, mean.result, state.round, total_weight))
    finished = tff.federated_map(finish_round, (state.server, server, total_weight, state.round))
    metrics = tff.federated_zip(
      collections.OrderedDict(
        train=tff.federated_map(finalize_metrics, tally),
        clients=present,
        non_finite=tff.federated_map(add, tuple(broken)),
        update_norm=finished[2],
        aggregators=tuple(mean.measurements for mean in aggregated),
      )
    )
    new_state = tff.federated_zip(
      ProcessState(finished[1], finished[0], tuple(mean.state for mean in aggregated))
    )
    return RoundOutput(new_state, client_states, metrics)

  return FederatedProcess(
    initialize,
    next_fn,
    algorithm=algorithm,
    model=model,
    work=work,
    client_type=client_type,
    stages=exchanges,
  )


def _measured(exchanges: list[Stage]) -> int:
  """The exchange whose batches make the training metrics: the last with local steps, if any."""
  tallied = [i for i, e in enumerate(exchanges) if hasattr(e.client.type_signature.result, "tally")]
  if not tallied:
    raise ValueError(
      "Expected a client_update that takes steps or a full gradient; found none that "
      "touches its client's data."
    )
  return max(tallied, key=lambda i: (exchanges[i].walks, i))


def _client_state_type(algorithm: Algorithm, model: Model) -> tff.types.Type:
  @tff.tensorflow.computation
  def initial_client():
    weights = tuple(tf.constant(w) for w in model.initial_weights)
    return algorithm.init_client(weights, tf.zeros([2], tf.int32))

  return initial_client.type_signature.result
