"""Reference lines: what federated algorithms are compared with, through the same process and round loop.

    centralised  one machine holds the data of all clients:   y ← y − η_l g(y; b)
    local_only   every client trains alone, for ever:         y_i ← y_i − η_l g(y_i; b)

They are no federated algorithms, so they are not in `ALGORITHMS`; `--algo` takes their names. Nothing
travels: both count no bytes. `centralised` needs data in which a round's one client holds the round's batches
(`experiments/training/pooled.py`). `local_only` has no model of the server's: its models are the clients'
states, and the server's state is the initial model.
"""

from typing import Any

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.client import Client
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


@named
def centralised(*, client_learning_rate: float | Schedule) -> Algorithm:
  """Plain SGD on the data of all clients together.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule over rounds. Required.

  Returns:
    The algorithm. A cohort of one client, which holds the batches of the round, is what makes it plain SGD.

  Raises:
    ValueError: the rate is out of its range.

  Example:
    >>> centralised(client_learning_rate=0.1).name
    'centralised'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def client_update(client, y, state):
    return Update(upload=_sgd(client, y, eta_l(client.round)))

  return Algorithm(
    init_server=lambda y: y,
    exchanges=(
      Exchange(
        lambda y, t: y,
        client_update,
        lambda y, mean, info: mean,  # of one client: its model, to the bit
        upload_bytes=_no_bytes,
        download_bytes=_no_bytes,
      ),
    ),
    model=lambda y: y,
  )


@named
def local_only(*, client_learning_rate: float | Schedule) -> Algorithm:
  """Every client trains a model of its own, in the rounds in which it is in the cohort.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule over rounds. Required.

  Returns:
    The algorithm; a client's state is its model.

  Raises:
    ValueError: the rate is out of its range.

  Example:
    >>> local_only(client_learning_rate=0.1).name
    'local_only'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def client_update(client, message, y_i):
    return Update(upload=(), state=_sgd(client, y_i, eta_l(client.round)))

  return Algorithm(
    init_server=lambda x: x,
    exchanges=(Exchange(lambda x, t: (), client_update, lambda x, mean, info: x),),
    model=lambda x: x,
    init_client=lambda x, seed: x,
  )


def _sgd(client: Client, y: Tree, learning_rate: Any) -> Tree:
  """The model after plain local SGD from y."""

  def step(y, grad):
    return trees.map(lambda y, g: y - learning_rate * g, y, grad(y))

  return client.steps(step, y)


def _no_bytes(specs: Any) -> int:
  return 0
