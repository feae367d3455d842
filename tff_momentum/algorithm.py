"""The vocabulary of an algorithm: a round is a tuple of exchanges, and an algorithm is a record of functions.

An exchange is *message → client update → mean → server update*. Here is a whole algorithm, FedAvg, and two
rounds of it on one client:

    >>> import numpy as np, tensorflow as tf, tff_momentum as tfm
    >>> from tff_momentum import trees
    >>> def fedavg(*, client_learning_rate, server_learning_rate=1.0):
    ...   def client_update(client, x, state):
    ...     def step(y, grad):                                     # y ← y − η_l g(y; b)
    ...       return trees.map(lambda y, g: y - client_learning_rate * g, y, grad(y))
    ...     return tfm.Update(upload=trees.subtract(x, client.steps(step, x)))
    ...
    ...   def server_update(x, delta, info):                       # x ← x − η E[Δ]
    ...     return trees.map(lambda x, d: x - server_learning_rate * d, x, delta)
    ...
    ...   return tfm.Algorithm(
    ...     init_server=lambda x: x,
    ...     exchanges=(tfm.Exchange(lambda x, t: x, client_update, server_update),),
    ...     model=lambda x: x,
    ...     name="my_fedavg",
    ...   )
    >>> model = tfm.from_keras(
    ...   lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))]),
    ...   loss=tf.keras.losses.MeanSquaredError(),
    ...   batch_spec=(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])),
    ... )
    >>> process = tfm.build_process(fedavg(client_learning_rate=0.1), model)
    >>> x = np.float32([[1, 0], [0, 1], [1, 1]])
    >>> data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).batch(3)
    >>> state, losses = process.initialize(), []
    >>> for round_number in range(2):
    ...   client = tfm.ClientInput(seed=np.int32([0, round_number]), state=(), data=data)
    ...   state, _, metrics = process.next(state, [client])
    ...   losses.append(float(metrics["train"]["loss"]))
    >>> losses[1] < losses[0]
    True

`build_process` turns the record into a `tff.templates.IterativeProcess`. The functions are plain
TensorFlow: they run, and are tested, without TFF. One trap: TFF traces them in a graph, where `==` compares
Python objects; use `tf.equal`.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeAlias

import tensorflow as tf

from tff_momentum import validation, wire_bytes
from tff_momentum.client import Client
from tff_momentum.models.model import Model, Weights

# Each algorithm chooses these structures of tensors; a named tuple where there is more than one tensor.
ServerState: TypeAlias = Any
ClientState: TypeAlias = Any
Message: TypeAlias = Any
Upload: TypeAlias = Any

P = ParamSpec("P")
WEIGHTINGS = ("uniform", "num_examples")
CLIENT_WORK = ("local_steps", "full_gradient", "none")


class RoundInfo(NamedTuple):
  """What the server knows about a round besides its own state.

  Attributes:
    round: the round number, int32, counted from 0.
    weight: the sum of the clients' weights, float32: the number of clients that took part, or the number of
      their examples.
  """

  round: tf.Tensor
  weight: tf.Tensor


class Update(NamedTuple):
  """The result of a client's part in an exchange.

  Attributes:
    upload: what the client sends; the server gets the mean over the cohort.
    state: what the client keeps for its next round.
  """

  upload: Upload
  state: ClientState = ()


ClientUpdate: TypeAlias = Callable[[Client, Message, ClientState], Update]
ServerUpdate: TypeAlias = Callable[[ServerState, Upload, RoundInfo], ServerState]
Momentum: TypeAlias = Callable[[ServerState, tf.Tensor, tf.Tensor], Weights]


@dataclasses.dataclass(frozen=True)
class Exchange:
  """One message to the clients and one upload back.

  Attributes:
    message: (server state, round number) -> what every client downloads.
    client_update: (`Client`, message, client state) -> `Update`.
    server_update: (server state, mean of the uploads, `RoundInfo`) -> server state. Only the last exchange
      of a round must return the type of state that the round started with.
    upload_bytes: (specs of the upload) -> bytes on the wire; override it if uploads are compressed.
    download_bytes: (specs of the message) -> bytes on the wire; override it if a client downloads only a
      part of the message.
    first_round_only: whether the exchange takes place only in round 0; later its uploads are zeros.
    client_work: what `client_update` does with its client's data: "local_steps" (calls `Client.steps`, and
      perhaps `Client.full_gradient` too), "full_gradient" (calls only that) or "none". Training metrics come
      from the last exchange with local steps, or else the last with a full gradient; diagnostics measure
      local steps. `build_process` raises ValueError if `client_update` does something else.
  """

  message: Callable[[ServerState, tf.Tensor], Message]
  client_update: ClientUpdate
  server_update: ServerUpdate
  upload_bytes: Callable[[Any], int] = wire_bytes.dense_bytes
  download_bytes: Callable[[Any], int] = wire_bytes.dense_bytes
  first_round_only: bool = False
  client_work: str = "local_steps"

  def __post_init__(self):
    validation.one_of("client_work", self.client_work, CLIENT_WORK)

  @property
  def takes_local_steps(self) -> bool:
    """Whether clients take local steps in this exchange in every round."""
    return self.client_work == "local_steps" and not self.first_round_only

  @property
  def reports_metrics(self) -> bool:
    """Whether clients report training metrics in this exchange."""
    return self.client_work != "none" and not self.first_round_only


@dataclasses.dataclass(frozen=True)
class Averaging:
  """Where an algorithm with the server step x ← x − η E[Δ] keeps x and Δ.

  Transforms that change this step, or the point at which clients start, need to know.

  Attributes:
    delta: the field of the upload that is Δ; None if the whole upload is Δ.
    x: the field of the message and of the server state that is x; None if each is x as a whole.
    exact: whether Δ is the client's start minus its final model; False once uploads are compressed.
  """

  delta: str | None = None
  x: str | None = None
  exact: bool = True


@dataclasses.dataclass(frozen=True, repr=False)
class Algorithm:
  """A federated algorithm, as a record of pure functions.

  Example:
    >>> import tff_momentum as tfm
    >>> tfm.algorithms.scaffold(client_learning_rate=0.1, num_clients=100)
    Algorithm(scaffold(client_learning_rate=0.1, num_clients=100), 1 exchange per round)

  Attributes:
    init_server: initial weights -> server state.
    exchanges: the exchanges of a round, in order.
    model: server state -> the weights to evaluate.
    init_client: (initial weights, seed) -> the state of a client in its first round; an empty tuple if
      clients keep no state.
    client_weighting: "uniform" or "num_examples": the weights of the cohort mean E[·].
    prepare_model: changes the model before training; FedMAX adds a penalty to its loss.
    momentum: (server state, round number, mean K_i) -> the server's momentum, scaled so that it converges to
      the gradient if the gradient is constant. None if the server has no momentum.
    averaging: where x and Δ are, if the server steps x ← x − η E[Δ]; None if it steps in another way.
    step_operations: operations per parameter in a local step, C in FedGBO, Table 6, if the paper's count
      differs from our implementation's (see `diagnostics.flops`).
    name: the name in error messages.
    hyperparameters: the builder's arguments, if known; `repr` shows them.
    max_staleness: the largest number of rounds between a client's start and its upload; 0 for a synchronous
      algorithm, whose clients start and finish in the same round (see `transforms.asynchronous`).
  """

  init_server: Callable[[Weights], ServerState]
  exchanges: tuple[Exchange, ...]
  model: Callable[[ServerState], Weights]
  init_client: Callable[[Weights, tf.Tensor], ClientState] = lambda weights, seed: ()
  client_weighting: str = "uniform"
  prepare_model: Callable[[Model], Model] = lambda model: model
  momentum: Momentum | None = None
  averaging: Averaging | None = None
  step_operations: int | None = None
  name: str = "unnamed algorithm"
  max_staleness: int = 0
  hyperparameters: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)

  def __post_init__(self):
    validation.one_of("client_weighting", self.client_weighting, WEIGHTINGS)

  def __repr__(self) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in self.hyperparameters.items())
    count = len(self.exchanges)
    parts = [
      f"{self.name}({given})" if given else self.name,
      f"{count} exchange{'s' if count != 1 else ''} per round",
      *([f"max_staleness={self.max_staleness}"] if self.max_staleness else []),
    ]
    return f"Algorithm({', '.join(parts)})"


def named(builder: Callable[P, Algorithm]) -> Callable[P, Algorithm]:
  """Decorates a builder so that its algorithms carry its name and their hyperparameters.

  If one builder calls another, the algorithm has the name and hyperparameters of the outer one.
  """

  @functools.wraps(builder)
  def build(*args: P.args, **kwargs: P.kwargs) -> Algorithm:
    return dataclasses.replace(
      builder(*args, **kwargs), name=builder.__name__, hyperparameters=dict(kwargs)
    )

  return build
