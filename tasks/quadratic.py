"""Quadratic clients whose curvature, dissimilarity and optimum are known exactly.

    f_i(x) = ½ (x − x*)ᵀ A_i (x − x*) + b_iᵀ(x − x*),    A_i = diag(a ± δ·s_i),    b_i = ± G·u_i

where s_i is a vector of random signs, u_i a random unit vector, and a lies between `mu` and `smoothness`.
Clients 2k and 2k+1 share s_i and u_i and take opposite signs ±. So the mean of A_i over all clients is
diag(a), the mean of b_i is zero, and

    f(x) = ½ (x − x*)ᵀ diag(a) (x − x*),   ‖∇f_i(x*) − ∇f(x*)‖ = G,   ‖A_i − diag(a)‖ = δ

for any number of clients (if it is odd, the last client is f itself). A client is generated on demand from
(seed, its number). An example is the diagonal of A_i and b_i plus noise; the noise sums to zero over the
client.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.data.batches import NumberedIds, ordered_batches
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.model import Batch, Model, Seed, Tally, Weights
from tff_momentum.runtime import ClientBatches


class Problem:
  """The functions f_i, their mean f and its minimiser, in NumPy."""

  def __init__(
    self,
    *,
    seed: int,
    num_clients: int,
    dimension: int,
    mu: float,
    smoothness: float,
    gradient_dissimilarity: float,
    hessian_dissimilarity: float,
    noise: float,
    examples_per_client: int,
  ):
    self.num_clients = num_clients
    self.curvature = np.geomspace(mu, smoothness, dimension)
    self.optimum = np.random.default_rng([seed, 0]).normal(size=dimension)
    self._seed, self._noise, self._examples = seed, noise, examples_per_client
    self._g, self._delta = gradient_dissimilarity, hessian_dissimilarity

  def client(self, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the diagonal of A_i and the vector b_i."""
    dimension = len(self.curvature)
    if number == self.num_clients - 1 and number % 2 == 0:
      return self.curvature, np.zeros(dimension)
    rng = np.random.default_rng([self._seed, 1, number // 2])
    sign = 1 - 2 * (number % 2)
    signs = rng.choice([-1.0, 1.0], dimension)
    direction = rng.normal(size=dimension)
    direction /= np.linalg.norm(direction)
    return self.curvature + sign * self._delta * signs, sign * self._g * direction

  def examples(self, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a client's examples: copies of A_i's diagonal, and of b_i plus noise."""
    diagonal, linear = self.client(number)
    shape = (self._examples, len(diagonal))
    noise = np.zeros(shape)
    if self._noise:
      noise = np.random.default_rng([self._seed, 2, number]).normal(scale=self._noise, size=shape)
      noise -= noise.mean(axis=0)
    rows = np.broadcast_to(diagonal, shape), linear + noise
    return rows[0].astype(np.float32), rows[1].astype(np.float32)

  def value(self, x: np.ndarray) -> float:
    """Returns f(x); the minimum, at the optimum, is 0."""
    return float(0.5 * np.sum(self.curvature * (x - self.optimum) ** 2))


def quadratic_model(optimum: np.ndarray, start: np.ndarray) -> Model:
  """Returns the model whose only weight is the vector x; a batch is rows of (A_i, b_i).

  Args:
    optimum: x*.
    start: the initial x.
  """
  x_star = optimum.astype(np.float32)
  spec = tf.TensorSpec([None, len(optimum)], tf.float32)

  def evaluate(weights: Weights, batch: Batch) -> Tally:
    (x,), (diagonal, linear) = weights, batch
    d = x - x_star
    n = tf.cast(tf.shape(diagonal)[0], tf.float32)
    values = tf.reduce_sum(0.5 * diagonal * d**2 + linear * d, axis=1)
    metrics = collections.OrderedDict(distance=(n * tf.norm(d), n))
    return Tally(n, tf.reduce_sum(values), metrics)

  def value_and_grad(weights: Weights, batch: Batch, seed: Seed) -> tuple[Tally, Weights]:
    del seed
    diagonal, linear = batch
    gradient = tf.reduce_mean(diagonal * (weights[0] - x_star) + linear, axis=0)
    return evaluate(weights, batch), (gradient,)

  def empty_tally() -> Tally:
    zero = tf.zeros([])
    return Tally(zero, zero, collections.OrderedDict(distance=(zero, zero)))

  def finalize_metrics(metrics: Any) -> "collections.OrderedDict[str, tf.Tensor]":
    return collections.OrderedDict(distance=tf.math.divide_no_nan(*metrics["distance"]))

  return Model(
    initial_weights=(start.astype(np.float32),),
    batch_spec=(spec, spec),
    value_and_grad=value_and_grad,
    evaluate=evaluate,
    empty_tally=empty_tally,
    finalize_metrics=finalize_metrics,
  )


def load(
  *,
  seed: int,
  num_clients: int = 100,
  dimension: int = 20,
  mu: float = 0.1,
  smoothness: float = 1.0,
  gradient_dissimilarity: float = 1.0,
  hessian_dissimilarity: float = 0.1,
  noise: float = 0.0,
  examples_per_client: int = 10,
) -> Task:
  """Loads the task; evaluation reports f(x) − f(x*) as the loss, and the distance to x*.

  Args:
    seed: seed of the clients and the optimum.
    num_clients: number of clients; any number is possible, since clients are generated on demand.
    dimension: dimension of x.
    mu: smallest curvature of f.
    smoothness: L, largest curvature of f.
    gradient_dissimilarity: G, exact at the optimum.
    hessian_dissimilarity: δ, exact everywhere; above `mu`, some clients are not convex.
    noise: standard deviation of each coordinate of an example's gradient.
    examples_per_client: n_i; with a smaller batch size, a client takes several steps per epoch.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid.
  """
  validation.integer("num_clients", num_clients, at_least=1)
  validation.integer("dimension", dimension, at_least=1)
  validation.number("mu", mu, above=0)
  validation.number("smoothness", smoothness, at_least=mu)
  validation.number("gradient_dissimilarity", gradient_dissimilarity, at_least=0)
  validation.number("hessian_dissimilarity", hessian_dissimilarity, at_least=0)
  validation.number("noise", noise, at_least=0)
  validation.integer("examples_per_client", examples_per_client, at_least=1)
  options = dict(
    num_clients=num_clients,
    dimension=dimension,
    mu=mu,
    smoothness=smoothness,
    gradient_dissimilarity=gradient_dissimilarity,
    hessian_dissimilarity=hessian_dissimilarity,
    noise=noise,
    examples_per_client=examples_per_client,
  )
  problem = Problem(seed=seed, **options)  # type: ignore[arg-type]
  model = quadratic_model(problem.optimum, np.zeros(dimension))
  mean = (problem.curvature[None].astype(np.float32), np.zeros([1, dimension], np.float32))
  return Task(
    name="quadratic",
    model=model,
    clients=NumberedIds(num_clients),
    dataset=lambda client, seed, size: ClientBatches(
      problem.examples(int(client)), batch_size=size, seed=seed
    ),
    evaluation=lambda batch_size: ordered_batches(mean, batch_size),
    total_examples=num_clients * examples_per_client,
    defaults=Defaults(
      total_rounds=100, clients_per_round=10, client_batch_size=1, client_learning_rate=0.1
    ),
    data="embedded",
    details={**options, "optimum": problem.optimum.tolist()},
  )
