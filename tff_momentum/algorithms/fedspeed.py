"""FedSpeed: FedDyn's regularisers with a sharpness-aware gradient.

Yan Sun, Li Shen, Tiansheng Huang, Liang Ding, Dacheng Tao, "FedSpeed: Larger Local Interval, Less
Communication Round, and Higher Generalization Accuracy", ICLR 2023. https://arxiv.org/abs/2302.10429

    client:  y ← y − η_l ((1−θ)g + θg̃ − g_i + α(y − x)), from y = x, g̃ as in `fedsam`
             g_i ← g_i + αΔ;   Δ = x − y
    server:  h ← h + α (S/N) E[Δ];   x ← x − E[Δ] − h/α        (duals of everyone, as in `feddyn`)
             x ← E[y − g_i/α] with the new g_i                 (duals of the cohort)

α is 1/λ of the paper, g_i its ĝ_i, and θ its α. The authors' public code (FL-Simulator) has θ = 1, a
normalised climb, and the duals of everyone, which are the defaults; the paper has any θ, the climb ρg, and
the duals of the cohort. Both duals agree if all clients take part; in small cohorts those of the cohort are
noisier.
"""

import dataclasses

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.algorithms.feddyn import dynamic_regularisation
from tff_momentum.algorithms.fedsam import short_climb, uphill_gradient
from tff_momentum.default_rates import derives_rates
from tff_momentum.schedules import Schedule, schedule


@named
@derives_rates(short_climb)
def fedspeed(
  *,
  client_learning_rate: float | Schedule,
  num_clients: int,
  alpha: float = 0.1,
  rho: float | Schedule = 0.1,
  mix: float | Schedule = 1.0,
  climb: str = "normalised",
  duals: str = "everyone",
  client_weighting: str = "uniform",
  total_examples: int | None = None,
) -> Algorithm:
  """FedSpeed.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    num_clients: N, the number of all clients. Required.
    alpha: α > 0, the weight of the regulariser; default 0.1, as in the authors' code.
    rho: ρ ≥ 0, the length of the climb; 0 is FedDyn. Default 0.1, as in the authors' code.
    mix: θ in [0, 1], the weight of the gradient after the climb; default 1.
    climb: "normalised" (default) climbs by ρg/‖g‖, "plain" by ρg.
    duals: whose regularisers correct the model, those of "everyone" (default) or of the "cohort".
    client_weighting: "uniform" (default), or "num_examples" for the optimum of the pooled loss.
    total_examples: the examples of all clients together; required when weighting by examples.

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range, or duals of the cohort are weighted by examples.

  Example:
    >>> fedspeed(client_learning_rate=0.1, num_clients=100, rho=0.05).name
    'fedspeed'
  """
  rho = schedule("rho", rho, at_least=0)
  mix = schedule("mix", mix, at_least=0, at_most=1)
  validation.one_of("climb", climb, ("normalised", "plain"))
  validation.one_of("duals", duals, ("everyone", "cohort"))

  def local_gradient(grad, y, t):
    g, theta = grad(y), mix(t)
    length = rho(t) * (trees.norm(g) + 1e-7) if climb == "plain" else rho(t)
    uphill = uphill_gradient(grad, y, g, length)
    return trees.map(lambda g, up: (1 - theta) * g + theta * up, g, uphill)

  everyone = dynamic_regularisation(
    local_gradient, client_learning_rate, num_clients, alpha, client_weighting, total_examples
  )
  if duals == "everyone":
    return everyone
  if client_weighting != "uniform":
    raise ValueError(
      f"client_weighting must be uniform with duals='cohort'; found {client_weighting!r}."
    )

  def client_update(client, x, g_i):
    delta, g_i = everyone.exchanges[0].client_update(client, x, g_i)
    return Update(trees.map(lambda d, g: d + g / alpha, delta, g_i), g_i)

  return dataclasses.replace(
    everyone,
    init_server=lambda x: x,
    exchanges=(
      Exchange(lambda x, t: x, client_update, lambda x, mean, info: trees.subtract(x, mean)),
    ),
    model=lambda x: x,
  )
