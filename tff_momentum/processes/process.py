"""Turns an `Algorithm` into a `tff.templates.IterativeProcess`; no other module does.

    next(state, clients) -> RoundOutput(state, clients, metrics)

`state` is a `ProcessState` at the server and `clients` a list of `ClientInput`, one per client, or of bare
data sets if clients keep no state; the clients' new states come back in the same order. All types are
explicit: `FederatedProcess` has the types of the server state, the client state, messages and uploads, and
computes bytes on the wire from them.
"""

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import garbage, trees, validation, wire_bytes
from tff_momentum.algorithm import Algorithm, ClientState, ServerState
from tff_momentum.client import Client, LocalWork
from tff_momentum.models.model import Model, Seed, Weights
from tff_momentum.processes import initial_state
from tff_momentum.processes.client_input import ClientInput, RoundComputation
from tff_momentum.processes.exchange import (
  NOTHING,
  ROUND,
  AggregatorFactory,
  CompiledExchange,
  ExchangeTypes,
  compile_exchange,
  run_exchange,
  specs,
)
from tff_momentum.processes.functional_model import as_model

ClientKind = TypeVar("ClientKind", bound=Client)


class ProcessState(NamedTuple):
  """The whole state of a process; a checkpoint holds it and the clients' states.

  Attributes:
    round: the number of the next round, int32, counted from 0.
    server: the algorithm's server state.
    aggregators: the state of each exchange's aggregator.
  """

  round: Any
  server: ServerState
  aggregators: tuple[Any, ...]


class RoundOutput(NamedTuple):
  """The result of a round.

  Attributes:
    state: the new `ProcessState`.
    clients: the clients' new states, in the order of the cohort.
    metrics: `train` (loss, the model's metrics, num_examples), `clients` (how many took part), `non_finite`
      (how many updates held infinities or NaN), `update_norm`, and the `aggregators`' measurements.
  """

  state: ProcessState
  clients: Any
  metrics: Any


class FederatedProcess(tff.templates.IterativeProcess):
  """An iterative process that knows its algorithm, its types and its bytes on the wire.

  Attributes:
    algorithm: the algorithm that it was built from.
    model: the model that it trains.
    work: the clients' local work.
    compiled_exchanges: the round's exchanges as TFF computations, in order.
    server_state_type: the TFF type of the algorithm's server state.
    client_state_type: the TFF type of the algorithm's client state.
    takes_steps: whether each `ClientInput` must give its number of steps.
    takes_staleness: whether each `ClientInput` must give its staleness.
    exchanges: the types and sizes of what travels in an ordinary round.
    first_round_exchanges: the same for exchanges that take place only in round 0.
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
    compiled_exchanges: Sequence[CompiledExchange],
  ):
    """Wraps compiled computations; use `build_process`."""
    super().__init__(initialize, RoundComputation.of(next_fn), next_is_multi_arg=True)
    self.algorithm = algorithm
    self.model = model
    self.work = work
    self.compiled_exchanges = tuple(compiled_exchanges)
    self.server_state_type = initialize.type_signature.result.member.server
    self.client_state_type = client_type.state
    self.takes_steps = client_type.steps != NOTHING
    self.takes_staleness = client_type.staleness != NOTHING
    self.exchanges = tuple(e.types for e in compiled_exchanges if not e.exchange.first_round_only)
    self.first_round_exchanges = tuple(
      e.types for e in compiled_exchanges if e.exchange.first_round_only
    )

  def __repr__(self) -> str:
    return (
      f"FederatedProcess({self.algorithm.name}, {self.model.num_parameters:,} parameters, per client and "
      f"round {self.bytes_down(1):,} bytes down and {self.bytes_up(1):,} bytes up)"
    )

  def bytes_down(self, round_number: int) -> int:
    """The number of bytes that each client downloads in this round."""
    return sum(e.bytes_down for e in self._exchanges_of(round_number))

  def bytes_up(self, round_number: int) -> int:
    """The number of bytes that each client uploads in this round."""
    return sum(e.bytes_up for e in self._exchanges_of(round_number))

  @property
  def client_state_bytes(self) -> int:
    """The size of a client's state in bytes."""
    return wire_bytes.dense_bytes(specs(self.client_state_type))

  def weights(self, state: ProcessState) -> Weights:
    """The model's weights in a state."""
    return self.algorithm.model(state.server)

  def initial_client_state(self, seed: Seed) -> ClientState:
    """The state of a client in its first round; `seed` is int32[2]."""
    if self._common_client_state is not None:
      return self._common_client_state
    return self.algorithm.init_client(self._initial_weights, tf.constant(seed, tf.int32))

  @overload
  def make_client(
    self, round_number: tf.Tensor, client: ClientInput, *, model: Model | None = None
  ) -> Client: ...

  @overload
  def make_client(
    self, round_number: tf.Tensor, client: ClientInput, kind: type[ClientKind]
  ) -> ClientKind: ...

  def make_client(self, round_number, client, kind=Client, *, model=None):
    """Makes the `Client` that `client_update` gets; for measurements, inside a TFF computation.

    Args:
      round_number: the round in which the client starts.
      client: the client's input.
      kind: `Client` or a subclass of it.
      model: a model to use instead of the process's own.
    """
    own_steps = client.steps if self.takes_steps else None
    return kind(model or self.model, self.work, client.data, client.seed, round_number, own_steps)

  @functools.cached_property
  def _initial_weights(self) -> Weights:
    return tuple(tf.constant(w) for w in self.model.initial_weights)

  @functools.cached_property
  def _common_client_state(self) -> ClientState | None:
    """The state that all new clients share if it does not depend on the seed, else None."""
    init = tf.function(self.algorithm.init_client, autograph=False)
    traced = init.get_concrete_function(self.model.weights_spec, tf.TensorSpec([2], tf.int32))
    if traced.inputs[-1].consumers():
      return None
    if not traced.outputs:
      return traced.structured_outputs
    return self.algorithm.init_client(self._initial_weights, tf.zeros([2], tf.int32))

  def _exchanges_of(self, round_number: int) -> tuple[ExchangeTypes, ...]:
    return self.exchanges + (self.first_round_exchanges if round_number == 0 else ())


NON_FINITE = ("reject", "zero", "fatal")
_SEED = tff.types.TensorType(np.int32, (2,))


@garbage.paused()
def build_process(
  algorithm: Algorithm,
  model: Model | tff.learning.models.FunctionalModel,
  *,
  work: LocalWork | None = None,
  aggregator: AggregatorFactory | Callable[[int], AggregatorFactory] | None = None,
  non_finite: str = "reject",
) -> FederatedProcess:
  """Compiles an algorithm into a TFF iterative process.

  Example:
    >>> import tensorflow as tf, tff_momentum as tfm
    >>> model = tfm.from_keras(
    ...   lambda: tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(784,))]),
    ...   loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...   batch_spec=(tf.TensorSpec([None, 784]), tf.TensorSpec([None], tf.int32)),
    ... )
    >>> process = tfm.build_process(tfm.algorithms.fedavg(client_learning_rate=0.1), model)
    >>> process
    FederatedProcess(fedavg, 7,850 parameters, per client and round 31,400 bytes down and 31,400 bytes up)

  Args:
    algorithm: the algorithm.
    model: a `Model` or a `tff.learning.models.FunctionalModel`.
    work: the number of local epochs or steps, and the weight decay; one epoch by default.
    aggregator: a `tff.aggregators` factory, weighted or unweighted, in the place of the mean; or a function
      from the position of an exchange in the round, counted from 0, to its factory.
    non_finite: how to treat a client's update that holds infinities or NaN: "reject" leaves the client out,
      "zero" counts it as a client that did not move, "fatal" raises an error. The metrics count such updates,
      and the client keeps its old state.

  Returns:
    The process.

  Raises:
    ValueError: if the parts do not fit together: a wrong model, a server state that changes its type, an
      exchange whose `client_update` does other work than it declares.
  """
  validation.one_of("non_finite", non_finite, NON_FINITE)
  model, work = algorithm.prepare_model(as_model(model)), work or LocalWork()
  factory = aggregator or tff.aggregators.MeanFactory(no_nan_division=True)
  factory_of = factory if callable(factory) else lambda number: factory

  weights_type = initial_state.weights_type(model.initial_weights)

  @tff.tensorflow.computation(weights_type)
  def initial_server(weights):
    return algorithm.init_server(tuple(weights.trainable))

  server_type = initial_server.type_signature.result
  client_type = tff.types.to_type(
    ClientInput(
      _SEED,
      _client_state_type(algorithm, weights_type),
      tff.types.SequenceType(tff.types.tensorflow_to_type(model.batch_spec)),
      steps=tff.types.TensorType(np.int32) if work.uneven else NOTHING,
      staleness=tff.types.TensorType(np.int32) if algorithm.max_staleness else NOTHING,
    )
  )
  exchanges: list[CompiledExchange] = []
  state_type = server_type
  for exchange in algorithm.exchanges:
    exchanges.append(
      compile_exchange(
        exchange,
        algorithm.client_weighting,
        model,
        work,
        factory_of(len(exchanges)),
        state_type,
        client_type,
        first=not exchanges,
        non_finite=non_finite,
      )
    )
    state_type = exchanges[-1].server.type_signature.result
  if not server_type.is_assignable_from(state_type):
    raise ValueError(
      "Expected the last server_update to return the type of state that init_server returns, "
      f"{server_type}; found {state_type}: return the same structure, shapes and dtypes."
    )
  reporting = _reporting_metrics(exchanges)

  @tff.tensorflow.computation(exchanges[reporting].client.type_signature.result.tally)
  def finalize_metrics(tally):
    return model.finalize(tally)

  @tff.tensorflow.computation(server_type, server_type, np.float32, ROUND)
  def finish_round(old, new, weight, t):
    # A round without any data changes only the round number.
    new = trees.where(weight > 0, new, old)
    return new, t + 1, trees.norm(trees.subtract(algorithm.model(new), algorithm.model(old)))

  @tff.tensorflow.computation([np.int32] * len(exchanges))
  def add(counts):
    return tf.add_n(list(counts))

  @tff.federated_computation(tff.types.FederatedType(weights_type, tff.SERVER))
  def initialize_from(weights):
    return tff.federated_zip(
      ProcessState(
        round=tff.federated_value(np.int32(0), tff.SERVER),
        server=tff.federated_map(initial_server, weights),
        aggregators=tuple(e.aggregation.initialize() for e in exchanges),
      )
    )

  initialize = initial_state.InitialState(initialize_from, model.initial_weights)

  @tff.federated_computation(
    initialize.type_signature.result, tff.types.FederatedType(client_type, tff.CLIENTS)
  )
  def next_fn(state, clients):
    server, client_states, weights = state.server, clients.state, None
    aggregated, tally, broken = [], None, []
    for number, exchange in enumerate(exchanges):
      reports, mean = run_exchange(exchange, state, number, server, clients, client_states, weights)
      client_states, weights = reports.state, reports.weight
      total_weight = tff.federated_sum(weights)
      broken.append(tff.federated_sum(reports.non_finite))
      if number == 0:
        present = tff.federated_sum(reports.present)
      if number == reporting:
        tally = tff.federated_sum(reports.tally)
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
    compiled_exchanges=exchanges,
  )


def _reporting_metrics(exchanges: Sequence[CompiledExchange]) -> int:
  """The exchange that gives the training metrics: the last with local steps, else the last that has any."""
  reporting = [number for number, e in enumerate(exchanges) if e.exchange.reports_metrics]
  if not reporting:
    raise ValueError(
      "Expected a client_update that calls Client.steps or Client.full_gradient in every round; found none."
    )
  return max(reporting, key=lambda number: (exchanges[number].exchange.takes_local_steps, number))


def _client_state_type(algorithm: Algorithm, weights_type: tff.types.Type) -> tff.types.Type:
  @tff.tensorflow.computation(weights_type)
  def initial_client(weights):
    return algorithm.init_client(tuple(weights.trainable), tf.zeros([2], tf.int32))

  return initial_client.type_signature.result
