"""FedInit: FedAvg whose clients start beyond the server's model, away from where they ended last time.

Yan Sun, Li Shen, Dacheng Tao, "Understanding How Consistency Works in Federated Learning via Stage-wise
Relaxed Initialization", NeurIPS 2023. https://arxiv.org/abs/2306.05706

    client:  y ← y − η_l g(y; b), from y = x + β(x − ŷ_i);   Δ = start − y;   ŷ_i ← y
    server:  x ← x − η E[Δ]

`tff_momentum.transforms.relaxed_start` has the rule and what the paper does otherwise; `--transform=fedinit`
applies it to other algorithms.
"""

from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedavg import fedavg
from tff_momentum.schedules import Schedule
from tff_momentum.transforms.relaxed_start import relaxed


@named
def fedinit(
  *,
  client_learning_rate: float | Schedule,
  beta: float | Schedule = 0.1,
  aggregate: str = "moves",
  first_round: str = "initial",
  server_learning_rate: float | Schedule = 1.0,
  participation: float | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedInit.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    beta: β in [0, 1), how far beyond x clients start; 0 is FedAvg. Default 0.1, as in the authors' code.
    aggregate: what the server averages, the clients' "moves" (default) or their "models".
    first_round: where a client starts that was never seen: x + β(x − x⁰), "initial" (default), or x, "none".
    server_learning_rate: η > 0, a number or a schedule; default 1.
    participation: C in (0, 1], clients per round over all clients, for a warning where β > C diverges.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedinit(client_learning_rate=0.1, beta=0.05).name
    'fedinit'
  """
  plain = fedavg(
    client_learning_rate=client_learning_rate,
    server_learning_rate=server_learning_rate,
    client_weighting=client_weighting,
  )
  return relaxed(
    plain, beta=beta, aggregate=aggregate, first_round=first_round, participation=participation
  )
