"""Base optimizers as records (U, V, I), so that one algorithm serves every optimizer.

- U(g, s) is the step for gradient g while the statistics s are held fixed.
- V(g, s) gives the statistics after gradient g.
- I(D, s) recovers the gradient from the mean step D = (x − x⁺)/(η_l K) of K local steps: I(U(g, s), s) = g.

U divides by the *old* v, so v starts at v0 = 1 rather than 0. There is no bias correction. Optimizers with
decoupled weight decay λ move the model against U + λy (`Optimizer.move`). Where I is missing, the gradient
cannot be recovered from steps, and FedGBO refuses the optimizer.

On the command line an optimizer is written like a call: `sgdm(0.9)`, `adam(beta1=0.9, beta2=0.99)`.
The table follows FedGBO, Table 2, with √v + ε and g² throughout (https://arxiv.org/abs/2108.09134).

    >>> print(optimizer("sgdm(0.9, dampened=True)"))
    sgdm(0.9, dampened=True)
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import call_syntax, trees, validation
from tff_momentum.adaptive_steps import (
  first_moment,
  joined,
  matrices,
  muon_scale,
  orthogonalised,
  vectors,
)
from tff_momentum.default_rates import LocalSgd, Rates, frozen_momentum_rate, start_up_rate
from tff_momentum.trees import Tree


@dataclasses.dataclass(frozen=True)
class Optimizer:
  """A base optimizer.

  Attributes:
    start: weights -> the initial statistics.
    step: U, (g, s) -> the direction; the model moves against it.
    track: V, (g, s) -> the next statistics.
    invert: I, (D, s) -> g; None if there is none.
    moving_step: (g, s, s⁺) -> the direction when the statistics move with every step (MFL); s⁺ = V(g, s).
    text: the optimizer as the command line writes it.
    momentum: s -> the momentum among the statistics, scaled to estimate a gradient; None without momentum.
    gain: what the step is in the long run, as a multiple of a constant gradient of size 1.
    decay: λ, the decoupled weight decay.
    fresh: the weight of the newest gradient in the step; less than `gain` with momentum.
  """

  start: Callable[[Tree], Tree]
  step: Callable[[Tree, Tree], Tree]
  track: Callable[[Tree, Tree], Tree]
  invert: Callable[[Tree, Tree], Tree] | None
  moving_step: Callable[[Tree, Tree, Tree], Tree]
  text: str
  momentum: Callable[[Tree], Tree] | None = None
  gain: float = 1.0
  fresh: float = 1.0
  decay: float = 0.0

  def move(self, y: Tree, u: Tree, rate: tf.Tensor) -> Tree:
    """The model after a step along u: y − rate · (u + λy)."""
    if not self.decay:
      return trees.map(lambda y, u: y - rate * u, y, u)
    return trees.map(lambda y, u: y - rate * (u + self.decay * y), y, u)

  def __str__(self) -> str:
    return self.text


class Moments(NamedTuple):
  """Adam's statistics."""

  m: Tree
  v: Tree


class Muon(NamedTuple):
  """Muon's momentum of the matrices, and Adam's statistics of the vectors."""

  m: Tree
  vectors: Moments


# How much smaller than SGD's the rates of steps of fixed size are, as in `adaptive_steps`.
SIGN_STEP, ORTHOGONAL_STEP = 100.0, 10.0


def moving_statistics_rates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The rate makes up for the gain of the optimizer and for momentum that starts at zero."""
  base = optimizer(hyperparameters["optimizer"])
  rate = sgd.learning_rate / base.gain * start_up_rate(1.0 - base.fresh / base.gain)
  return {"client_learning_rate": rate}


def fixed_statistics_rates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """Momentum that is fixed for K local steps pushes K times, so the rate falls with K and with its gain."""
  base = optimizer(hyperparameters["optimizer"])
  return {"client_learning_rate": frozen_momentum_rate(sgd, fresh=base.fresh, gain=base.gain)}


def sgd() -> Optimizer:
  """U = g, without statistics."""
  return Optimizer(
    start=lambda x: (),
    step=lambda g, s: g,
    track=lambda g, s: (),
    invert=lambda d, s: d,
    moving_step=lambda g, s, new: g,
    text="sgd",
  )


def sgdm(beta: float = 0.9, *, dampened: bool = False) -> Optimizer:
  """SGD with momentum: U = βm + g (dampened: βm + (1−β)g), V = U.

  Args:
    beta: β in [0, 1).
    dampened: whether the gradient is scaled by 1−β, as FedGBO and MFL write it; Mime does not scale it.
  """
  validation.number("beta", beta, at_least=0, below=1)
  validation.boolean("dampened", dampened)
  fresh = 1.0 - beta if dampened else 1.0

  def step(g, m):
    return trees.map(lambda g, m: beta * m + fresh * g, g, m)

  return Optimizer(
    start=trees.zeros_like,
    step=step,
    track=step,
    invert=lambda d, m: trees.map(lambda d, m: (d - beta * m) / fresh, d, m),
    moving_step=lambda g, m, new: new,
    text=f"sgdm({beta:g}{', dampened=True' if dampened else ''})",
    momentum=lambda m: trees.scale((1.0 - beta) / fresh, m),
    gain=fresh / (1.0 - beta),
    fresh=fresh,
  )


def rmsprop(beta: float = 0.99, *, epsilon: float = 1e-3, v0: float = 1.0) -> Optimizer:
  """RMSProp: U = g/(√v + ε), v ← βv + (1−β)g².

  Args:
    beta: β in [0, 1).
    epsilon: ε > 0; FedGBO's authors use 0.001.
    v0: the first value of v, at least 0; FedGBO's authors use 1. With 0 the first step is scaled by 1/ε.
  """
  validation.number("beta", beta, at_least=0, below=1)
  return _scaled(
    lambda g, v: beta * v + (1.0 - beta) * tf.square(g),
    epsilon,
    v0,
    f"rmsprop({beta:g}, epsilon={epsilon:g}, v0={v0:g})",
  )


def adagrad(*, epsilon: float = 1e-3, v0: float = 1.0) -> Optimizer:
  """Adagrad: U = g/(√v + ε), v ← v + g².

  Args:
    epsilon: ε > 0.
    v0: the first value of v, at least 0. With 0 the first step is scaled by 1/ε.
  """
  return _scaled(
    lambda g, v: v + tf.square(g), epsilon, v0, f"adagrad(epsilon={epsilon:g}, v0={v0:g})"
  )


def _scaled(
  track_v: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], epsilon: float, v0: float, text: str
) -> Optimizer:
  validation.number("epsilon", epsilon, above=0)
  validation.number("v0", v0, at_least=0)

  def step(g, v):
    return trees.map(lambda g, v: g / (tf.sqrt(v) + epsilon), g, v)

  return Optimizer(
    start=lambda x: trees.map(lambda w: tf.fill(w.shape, tf.cast(v0, w.dtype)), x),
    step=step,
    track=lambda g, v: trees.map(track_v, g, v),
    invert=lambda d, v: trees.map(lambda d, v: d * (tf.sqrt(v) + epsilon), d, v),
    moving_step=lambda g, v, new: step(g, new),
    text=text,
  )


def adam(
  beta1: float = 0.9, beta2: float = 0.99, *, epsilon: float = 1e-3, v0: float = 1.0
) -> Optimizer:
  """Adam: U = (β₁m + (1−β₁)g)/(√v + ε), m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g².

  Args:
    beta1: β₁ in [0, 1).
    beta2: β₂ in [0, 1).
    epsilon: ε > 0; FedGBO's authors use 0.001.
    v0: the first value of v, at least 0; FedGBO's authors use 1. With 0 the first step is scaled by 1/ε.
  """
  validation.number("beta1", beta1, at_least=0, below=1)
  validation.number("beta2", beta2, at_least=0, below=1)
  momentum = sgdm(beta1, dampened=True)
  scaling = rmsprop(beta2, epsilon=epsilon, v0=v0)
  return Optimizer(
    start=lambda x: Moments(momentum.start(x), scaling.start(x)),
    step=lambda g, s: scaling.step(momentum.step(g, s.m), s.v),
    track=lambda g, s: Moments(momentum.track(g, s.m), scaling.track(g, s.v)),
    invert=lambda d, s: trees.map(
      lambda d, m, v: (d * (tf.sqrt(v) + epsilon) - beta1 * m) / (1 - beta1), d, s.m, s.v
    ),
    moving_step=lambda g, s, new: scaling.step(new.m, new.v),
    text=f"adam({beta1:g}, {beta2:g}, epsilon={epsilon:g}, v0={v0:g})",
    momentum=lambda s: s.m,
    fresh=1.0 - beta1,
  )


def adamw(
  beta1: float = 0.9,
  beta2: float = 0.99,
  *,
  decay: float = 0.01,
  epsilon: float = 1e-3,
  v0: float = 1.0,
) -> Optimizer:
  """Adam with decoupled weight decay: the model moves against U + λy.

  Args:
    beta1: β₁ in [0, 1).
    beta2: β₂ in [0, 1).
    decay: λ ≥ 0.
    epsilon: ε > 0.
    v0: the first value of v, at least 0.
  """
  validation.number("decay", decay, at_least=0)
  base = adam(beta1, beta2, epsilon=epsilon, v0=v0)
  arguments = f"{beta1:g}, {beta2:g}, decay={decay:g}, epsilon={epsilon:g}, v0={v0:g}"
  return dataclasses.replace(base, invert=None, text=f"adamw({arguments})", decay=decay)


def lion(beta1: float = 0.9, beta2: float = 0.99, *, decay: float = 0.0) -> Optimizer:
  """Lion: U = sign(β₁m + (1−β₁)g), m ← β₂m + (1−β₂)g, with decoupled weight decay.

  Args:
    beta1: β₁ in [0, 1).
    beta2: β₂ in [0, 1).
    decay: λ ≥ 0.
  """
  validation.number("beta1", beta1, at_least=0, below=1)
  validation.number("beta2", beta2, at_least=0, below=1)
  validation.number("decay", decay, at_least=0)

  def step(g, m):
    return trees.map(tf.sign, first_moment(m, g, beta1))

  return Optimizer(
    start=trees.zeros_like,
    step=step,
    track=lambda g, m: first_moment(m, g, beta2),
    invert=None,
    moving_step=lambda g, m, new: step(g, m),
    text=f"lion({beta1:g}, {beta2:g}, decay={decay:g})",
    momentum=lambda m: m,
    gain=SIGN_STEP,
    fresh=SIGN_STEP,
    decay=decay,
  )


def muon(
  beta: float = 0.95,
  *,
  decay: float = 0.0,
  beta1: float = 0.9,
  beta2: float = 0.99,
  epsilon: float = 1e-3,
  v0: float = 1.0,
) -> Optimizer:
  """Muon for matrices, Adam for vectors, with decoupled weight decay.

  A matrix: m ← βm + (1−β)g, U = r NS₅(βm⁺ + (1−β)g) with m⁺ = βm + (1−β)g. NS₅ makes a matrix nearly
  orthogonal (`adaptive_steps.orthogonalised`); r is `adaptive_steps.muon_scale`.

  Args:
    beta: β in [0, 1), the momentum of matrices.
    decay: λ ≥ 0.
    beta1: β₁ in [0, 1) of the vectors' Adam.
    beta2: β₂ in [0, 1) of the vectors' Adam.
    epsilon: ε > 0 of the vectors' Adam.
    v0: the first value of the vectors' v, at least 0.
  """
  validation.number("beta", beta, at_least=0, below=1)
  validation.number("decay", decay, at_least=0)
  vector = adam(beta1, beta2, epsilon=epsilon, v0=v0)

  def orthogonal(g, m):
    ahead = first_moment(m, matrices(g), beta)
    return trees.map(lambda u: muon_scale(u.shape) * orthogonalised(u), ahead)

  def track(g, s):
    return Muon(first_moment(s.m, matrices(g), beta), vector.track(vectors(g), s.vectors))

  def step(g, s):
    return joined(orthogonal(g, track(g, s).m), vector.step(vectors(g), s.vectors), like=g)

  def moving_step(g, s, new):
    adam_step = vector.moving_step(vectors(g), s.vectors, new.vectors)
    return joined(orthogonal(g, new.m), adam_step, like=g)

  arguments = f"{beta:g}, decay={decay:g}, beta1={beta1:g}, beta2={beta2:g}, epsilon={epsilon:g}"
  return Optimizer(
    start=lambda x: Muon(trees.zeros_like(matrices(x)), vector.start(vectors(x))),
    step=step,
    track=track,
    invert=None,
    moving_step=moving_step,
    text=f"muon({arguments}, v0={v0:g})",
    gain=ORTHOGONAL_STEP,
    fresh=ORTHOGONAL_STEP,
    decay=decay,
  )


def momentum_of(base: Optimizer) -> Callable[[Any, tf.Tensor, tf.Tensor], Tree] | None:
  """Returns `Algorithm.momentum` for a server state that holds this optimizer's statistics as `s`."""
  momentum = base.momentum
  return None if momentum is None else lambda state, t, steps: momentum(state.s)


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
  "sgd": sgd,
  "sgdm": sgdm,
  "rmsprop": rmsprop,
  "adagrad": adagrad,
  "adam": adam,
  "adamw": adamw,
  "lion": lion,
  "muon": muon,
}


def optimizer(value: Optimizer | str) -> Optimizer:
  """Returns an optimizer, given one or text such as `sgdm(0.9)`.

  Raises:
    ValueError: the text names no optimizer, or its arguments are out of range.
  """
  if isinstance(value, str):
    value = call_syntax.evaluate("optimizer", value, OPTIMIZERS, literal="")
  if not isinstance(value, Optimizer):
    raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}; found {value!r}.")
  return value
