"""Client drift (GHBM, Definition 3.1) and α (FedGLOMO, Assumption 4), measured step by step over a cohort.

    y_i^k   client i before its local step k, counted from 0: where its gradient is taken
    θ^k     the shadow: all clients take step k from θ^k, each on its own batch, and are averaged
    drift   = mean over i and k of ‖y_i^k − θ^k‖²
    α       = max over k ≥ 1 of ‖Σ_i e_i^k‖² / Σ_i ‖e_i^k‖²,   e_i^k = ∇f_i(y_i^k) − ∇f_i(ȳ^k)

The shadow's step is the algorithm's own, so the drift is what clients do differently from each other: where
the step is plain SGD this is the definition as printed, with its learning rate. A step that not all clients
take is measured over those that do.
"""

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees, validation
from tff_momentum.diagnostics.local_steps import LocalSteps
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState

GRADIENTS = ("batch", "full")


class Walked(NamedTuple):
  """Client drift, α, α/n with n the clients that were measured, and the models they ended with.

  α is None where no second step was taken, or where all clients are in one place.
  """

  drift: float
  alpha: float | None
  alpha_per_client: float | None
  models: list[Any]


class _Told(NamedTuple):
  """What the server tells the clients before a step."""

  message: Any
  round: Any
  k: Any
  shadow: Any  # the shadow's carry, a flat list of tensors
  mean_y: Any  # ȳ^k


class Stepped(NamedTuple):
  """Everybody one step further, and what the step showed."""

  carries: Any
  shadow: Any
  mean_y: Any
  distance: Any  # Σ_i ‖y_i − θ‖² / K_i
  summed: Any  # ‖Σ_i e_i‖²
  single: Any  # Σ_i ‖e_i‖²
  walking: Any  # how many clients took the step


class LockStep:
  """Measures drift and α in one walk."""

  def __init__(
    self,
    process: FederatedProcess,
    *,
    drift: bool = True,
    alpha: bool = True,
    gradients: str = "batch",
  ):
    """Compiles the computations.

    Args:
      process: whose local steps are to be measured.
      drift: whether to measure the drift; it is 0 otherwise.
      alpha: whether to measure α; it is 0 otherwise.
      gradients: of the shadow and of α: "batch" takes those of the step's own batch; "full" those of all
        the client's data, as both papers write it, at the cost of a pass over the data for each step.
    """
    validation.one_of("gradients", gradients, GRADIENTS)
    self._steps = LocalSteps(process)
    self._read = _read(self._steps, *process.next.type_signature.parameter)
    self._begin = _begin(self._steps, *process.next.type_signature.parameter)
    self._step = _step(self._steps, self._begin, drift, alpha, full=gradients == "full")

  def __call__(self, state: ProcessState, clients: Sequence[ClientInput]) -> Walked:
    """Walks with a cohort from a state.

    Args:
      state: of the process.
      clients: the cohort, with data sets that nobody has read from: they are shuffled anew each time.
    """
    drift, ratios, models = 0.0, [], []
    for k, (stepped, latest) in enumerate(self.walk(state, clients)):
      models = latest
      drift += float(stepped.distance)
      if k and float(stepped.single) > 0:  # at k = 0 all clients are in one place, and α is 0/0
        ratios.append((float(stepped.summed) / float(stepped.single), float(stepped.walking)))
    alpha = max((ratio for ratio, _ in ratios), default=None)
    alpha_per_client = max((ratio / n for ratio, n in ratios), default=None)
    return Walked(drift / max(1, len(models)), alpha, alpha_per_client, models)

  def walk(
    self, state: ProcessState, clients: Sequence[ClientInput]
  ) -> Iterator[tuple[Stepped, list[Any]]]:
    """Yields what each step shows, and the models after it of the clients that have data."""
    cohort = list(clients)
    batches = self._read(state, cohort)
    told, carries, counts = self._begin(state, cohort)
    for k in range(int(np.max(counts, initial=0))):
      stepped = self._step(told._replace(k=np.int32(k)), cohort, batches, carries)
      told = told._replace(shadow=stepped.shadow, mean_y=stepped.mean_y)
      carries = stepped.carries
      there = (carry for carry, count in zip(carries, counts, strict=True) if count)
      yield stepped, [self._steps.unpacked(carry) for carry in there]


def _read(steps: LocalSteps, state_type: Any, clients_type: Any) -> tff.Computation:
  """(state@SERVER, clients@CLIENTS) -> the `Batches` of each client, which are then read step by step."""

  @tff.tensorflow.computation(state_type.member.round, clients_type.member)
  def batches(t, client):
    return steps.batches(t, client)

  @tff.federated_computation(state_type, clients_type)
  def read(state, clients):
    return tff.federated_map(batches, (tff.federated_broadcast(state.round), clients))

  return read


def _begin(steps: LocalSteps, state_type: Any, clients_type: Any) -> tff.Computation:
  """(state@SERVER, clients@CLIENTS) -> what all are told, where each one starts, and every K_i."""
  t_type = state_type.member.round

  @tff.tensorflow.computation(steps.message_type, t_type, clients_type.member)
  def start(message, t, client):
    count = steps.client(t, client).num_steps
    start = steps.begin(message, t, client).start
    carry = tf.nest.flatten(start)
    return collections.OrderedDict(
      carry=tuple(carry),
      as_floats=_as_floats(carry),
      y=steps.iterate(start),
      steps=tf.cast(count, tf.int32),
      walking=tf.cast(count > 0, tf.float32),
    )

  started_type = start.type_signature.result

  @tff.tensorflow.computation(steps.message_type, t_type, started_type.as_floats, started_type.y)
  def told(message, t, shadow, mean_y):
    carry = _back_from_floats(shadow, started_type.carry)
    return _Told(message, t, tf.zeros([], tf.int32), carry, mean_y)

  @tff.federated_computation(state_type, clients_type)
  def begin(state, clients):
    message = steps.message(state, clients)
    started = tff.federated_map(
      start, (tff.federated_broadcast(message), tff.federated_broadcast(state.round), clients)
    )
    shadow, y = (
      tff.federated_mean(value, started.walking) for value in (started.as_floats, started.y)
    )
    say = tff.federated_map(told, (message, state.round, shadow, y))
    return say, started.carry, started.steps

  return begin


def _step(
  steps: LocalSteps, begin: tff.Computation, drift: bool, alpha: bool, *, full: bool
) -> tff.Computation:
  """(told@SERVER, clients, their `Batches`, their carries@CLIENTS) -> `Stepped`."""
  _, clients_type = begin.type_signature.parameter
  told_type, carries_type, _ = begin.type_signature.result
  client_type, carry_type = clients_type.member, carries_type.member

  @tff.tensorflow.computation(told_type.member, client_type, steps.batches_type, carry_type)
  def take(told, client, batches, carry):
    step, start = steps.begin(told.message, told.round, client)
    own, shadow = (tf.nest.pack_sequence_as(start, each) for each in (carry, told.shadow))
    plain = steps.client(told.round, client)
    y = steps.iterate(own)
    walking, after = _walking(plain, told.k), _walking(plain, told.k + 1)
    nothing = trees.zeros_like(y) if alpha else ()

    def beside(y, grad):  # what is measured beside the step itself
      error = trees.subtract(grad(y), grad(told.mean_y)) if alpha else ()
      return step(shadow, grad) if drift else shadow, error

    one = steps.one_step(told.k, batches, told.round, client)
    if full:
      own_next = one.steps(step, own)
      gradient = _in_turn(plain.full_gradient, start)
      shadow_next, error = trees.where(walking > 0, beside(y, gradient), (shadow, nothing))
    else:

      def all_of_it(carries, grad):
        grad = _remembered(grad)
        return step(carries[0], grad), beside(steps.iterate(carries[0]), grad)

      own_next, (shadow_next, error) = one.steps(all_of_it, (own, (shadow, nothing)))
    away = trees.subtract(y, steps.iterate(shadow))
    return collections.OrderedDict(
      carry=tuple(tf.nest.flatten(own_next)),
      shadow=_as_floats(tf.nest.flatten(shadow_next)),
      y=steps.iterate(own_next),
      error=tuple(error),
      error_square=trees.dot(error, error) if alpha else tf.zeros([]),
      distance=walking * tf.math.divide_no_nan(trees.dot(away, away), plain.num_steps),
      walking=walking,
      after=after,
    )

  taken_type = take.type_signature.result

  @tff.tensorflow.computation(taken_type.shadow, taken_type.error)
  def at_server(shadow, error):
    summed = trees.dot(error, error) if alpha else tf.zeros([])
    return _back_from_floats(shadow, carry_type), summed

  @tff.federated_computation(
    told_type,
    clients_type,
    tff.types.FederatedType(steps.batches_type, tff.CLIENTS),
    carries_type,
  )
  def stepped(told, clients, batches, carries):
    taken = tff.federated_map(take, (tff.federated_broadcast(told), clients, batches, carries))
    error = tff.federated_sum(taken.error) if alpha else tff.federated_value((), tff.SERVER)
    shadow = tff.federated_mean(taken.shadow, taken.walking)
    shadow, summed = tff.federated_map(at_server, (shadow, error))
    return Stepped(
      carries=taken.carry,
      shadow=shadow,
      mean_y=tff.federated_mean(taken.y, taken.after),
      distance=tff.federated_sum(taken.distance),
      summed=summed,
      single=tff.federated_sum(taken.error_square),
      walking=tff.federated_sum(taken.walking),
    )

  return stepped


def _walking(client: Any, k: tf.Tensor) -> tf.Tensor:
  """1 for a client that takes step k, else 0."""
  return tf.cast(tf.cast(k, tf.float32) < client.num_steps, tf.float32)


def _in_turn(gradient: Callable[[Any], Any], before: Any) -> Callable[[Any], Any]:
  """The same function, each call after the one before: data is shuffled anew each time it is read."""
  last = [before]

  def grad(point):
    with tf.control_dependencies(tf.nest.flatten(last[0])):
      last[0] = gradient(point)
    return last[0]

  return grad


def _remembered(grad: Callable[[Any], Any]) -> Callable[[Any], Any]:
  """The same function, which does not take a gradient twice: the step and α share the one at y."""
  seen: list[tuple[Any, Any]] = []

  def ask(point):
    for before, gradient in seen:
      if all(a is b for a, b in zip(before, point, strict=True)):
        return gradient
    seen.append((point, grad(point)))
    return seen[-1][1]

  return ask


def _as_floats(leaves: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
  """A carry's leaves, counters and switches too, as numbers that have a mean."""
  return tuple(leaf if leaf.dtype.is_floating else tf.cast(leaf, tf.float32) for leaf in leaves)


def _back_from_floats(means: Sequence[tf.Tensor], carry_type: Any) -> tuple[tf.Tensor, ...]:
  """The mean of a counter or switch, which all clients have in common, is the thing itself."""
  return tuple(
    mean
    if np.issubdtype(kind.dtype, np.floating)
    else tf.cast(tf.round(mean), tf.as_dtype(kind.dtype))
    for mean, kind in zip(means, carry_type, strict=True)
  )
