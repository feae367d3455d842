"""TFF computations in which a whole cohort takes its local steps in lockstep; `drift` runs them.

`read` collects the batches, `begin` finds where each client starts, `step` takes one step. A carry travels
as a flat tuple of tensors, because its structure is the algorithm's own.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.client import Carry, Client, Gradient
from tff_momentum.diagnostics.local_steps import LocalSteps
from tff_momentum.models.model import Weights


class StepInput(NamedTuple):
  """What the server sends to the clients before a step.

  Attributes:
    message: the algorithm's own message.
    round: the round number.
    k: the number of the step, counted from 0.
    shadow: the carry of the shadow iterate θ^k.
    mean_y: ȳ^k, the mean of the clients' models.
  """

  message: Any
  round: Any
  k: Any
  shadow: Any
  mean_y: Any


class StepResult(NamedTuple):
  """The cohort after one step, and what the step showed.

  Attributes:
    carries: the clients' carries.
    shadow: the carry of θ^(k+1).
    mean_y: ȳ^(k+1).
    distance: Σ_i ‖y_i − θ‖² / K_i.
    summed: ‖Σ_i e_i‖².
    single: Σ_i ‖e_i‖².
    active: the number of clients that took the step.
  """

  carries: Any
  shadow: Any
  mean_y: Any
  distance: Any
  summed: Any
  single: Any
  active: Any


def read(
  steps: LocalSteps, state_type: tff.types.FederatedType, clients_type: tff.types.FederatedType
) -> tff.Computation:
  """(state@SERVER, clients@CLIENTS) -> each client's `StepBatches`@CLIENTS."""

  @tff.tensorflow.computation(state_type.member.round, clients_type.member)
  def read_batches(t, client):
    return steps.read_batches(t, client)

  @tff.federated_computation(state_type, clients_type)
  def read_all(state, clients):
    return tff.federated_map(read_batches, (tff.federated_broadcast(state.round), clients))

  return read_all


def begin(
  steps: LocalSteps, state_type: tff.types.FederatedType, clients_type: tff.types.FederatedType
) -> tff.Computation:
  """(state@SERVER, clients@CLIENTS) -> the first `StepInput`; each client's carry, K_i and y's position."""
  t_type = state_type.member.round

  @tff.tensorflow.computation(steps.message_type, t_type, clients_type.member)
  def start(message, t, client):
    count = steps.client(t, client).num_steps
    carry = steps.start(message, t, client).carry
    leaves = tf.nest.flatten(carry)
    return collections.OrderedDict(
      carry=tuple(leaves),
      as_floats=_as_floats(leaves),
      y=steps.iterate(carry),
      steps=tf.cast(count, tf.int32),
      position=tf.constant(steps.iterate_position(carry)),
      active=tf.cast(count > 0, tf.float32),
    )

  started_type = start.type_signature.result

  @tff.tensorflow.computation(steps.message_type, t_type, started_type.as_floats, started_type.y)
  def first_input(message, t, shadow, mean_y):
    carry = _from_floats(shadow, started_type.carry)
    return StepInput(message, t, tf.zeros([], tf.int32), carry, mean_y)

  @tff.federated_computation(state_type, clients_type)
  def begin_all(state, clients):
    message = steps.message(state, clients)
    started = tff.federated_map(
      start, (tff.federated_broadcast(message), tff.federated_broadcast(state.round), clients)
    )
    shadow, y = (
      tff.federated_mean(value, started.active) for value in (started.as_floats, started.y)
    )
    step_input = tff.federated_map(first_input, (message, state.round, shadow, y))
    return step_input, started.carry, started.steps, started.position

  return begin_all


def step(
  steps: LocalSteps, begin: tff.Computation, drift: bool, alpha: bool, *, full: bool
) -> tff.Computation:
  """(`StepInput`@SERVER, clients, their `StepBatches`, their carries@CLIENTS) -> `StepResult`.

  Args:
    steps: the local steps of a process.
    begin: the computation that `begin` compiled.
    drift: whether the shadow takes the step too.
    alpha: whether to compute e_i.
    full: whether the shadow and e_i use full gradients.
  """
  _, clients_type = begin.type_signature.parameter
  input_type, carries_type, *_ = begin.type_signature.result
  client_type, carry_type = clients_type.member, carries_type.member

  @tff.tensorflow.computation(input_type.member, client_type, steps.batches_type, carry_type)
  def take(given, client, batches, carry):
    step, start = steps.start(given.message, given.round, client)
    own, shadow = (tf.nest.pack_sequence_as(start, each) for each in (carry, given.shadow))
    handle = steps.client(given.round, client)
    y = steps.iterate(own)
    active, active_next = _takes_step(handle, given.k), _takes_step(handle, given.k + 1)
    no_error = trees.zeros_like(y) if alpha else ()

    def measure(y: Weights, grad: Gradient) -> tuple[Carry, Any]:
      error = trees.subtract(grad(y), grad(given.mean_y)) if alpha else ()
      return step(shadow, grad) if drift else shadow, error

    def take_step(function, carry):
      return steps.take_step(function, carry, given.k, batches, given.round, client)

    if full:
      own_next = take_step(step, own)
      gradient = _sequential(handle.full_gradient, start)
      shadow_next, error = trees.where(active > 0, measure(y, gradient), (shadow, no_error))
    else:

      def step_and_measure(carries, grad):
        grad = _memoized(grad)
        return step(carries[0], grad), measure(steps.iterate(carries[0]), grad)

      own_next, (shadow_next, error) = take_step(step_and_measure, (own, (shadow, no_error)))
    away = trees.subtract(y, steps.iterate(shadow))
    return collections.OrderedDict(
      carry=tuple(tf.nest.flatten(own_next)),
      shadow=_as_floats(tf.nest.flatten(shadow_next)),
      y=steps.iterate(own_next),
      error=tuple(error),
      error_square=trees.dot(error, error) if alpha else tf.zeros([]),
      distance=active * tf.math.divide_no_nan(trees.dot(away, away), handle.num_steps),
      active=active,
      active_next=active_next,
    )

  taken_type = take.type_signature.result

  @tff.tensorflow.computation(taken_type.shadow, taken_type.error)
  def at_server(shadow, error):
    summed = trees.dot(error, error) if alpha else tf.zeros([])
    return _from_floats(shadow, carry_type), summed

  @tff.federated_computation(
    input_type,
    clients_type,
    tff.types.FederatedType(steps.batches_type, tff.CLIENTS),
    carries_type,
  )
  def step_all(given, clients, batches, carries):
    taken = tff.federated_map(take, (tff.federated_broadcast(given), clients, batches, carries))
    error = tff.federated_sum(taken.error) if alpha else tff.federated_value((), tff.SERVER)
    shadow = tff.federated_mean(taken.shadow, taken.active)
    shadow, summed = tff.federated_map(at_server, (shadow, error))
    return StepResult(
      carries=taken.carry,
      shadow=shadow,
      mean_y=tff.federated_mean(taken.y, taken.active_next),
      distance=tff.federated_sum(taken.distance),
      summed=summed,
      single=tff.federated_sum(taken.error_square),
      active=tff.federated_sum(taken.active),
    )

  return step_all


def _takes_step(client: Client, k: tf.Tensor) -> tf.Tensor:
  """1 if the client takes step k, else 0."""
  return tf.cast(tf.cast(k, tf.float32) < client.num_steps, tf.float32)


def _sequential(gradient: Callable[..., Weights], before: Carry) -> Gradient:
  """The same function, each call after the previous one: data shuffles differently on each pass."""
  last = [before]

  def grad(point):
    with tf.control_dependencies(tf.nest.flatten(last[0])):
      last[0] = gradient(point)
    return last[0]

  return grad


def _memoized(grad: Gradient) -> Gradient:
  """The same function, computed once per point: the step and α share the gradient at y."""
  seen: list[tuple[Weights, Weights]] = []

  def lookup(point):
    for before, gradient in seen:
      if all(a is b for a, b in zip(before, point, strict=True)):
        return gradient
    seen.append((point, grad(point)))
    return seen[-1][1]

  return lookup


def _as_floats(leaves: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
  """A carry's leaves, including counters and flags, as floats, which have a mean."""
  return tuple(leaf if leaf.dtype.is_floating else tf.cast(leaf, tf.float32) for leaf in leaves)


def _from_floats(
  means: Sequence[tf.Tensor], carry_type: tff.types.StructType
) -> tuple[tf.Tensor, ...]:
  """Undoes `_as_floats` for a mean: all clients have the same counters and flags, so theirs is exact."""
  return tuple(
    mean
    if np.issubdtype(kind.dtype, np.floating)
    else tf.cast(tf.round(mean), tf.as_dtype(kind.dtype))
    for mean, kind in zip(means, carry_type, strict=True)
  )
