"""The competitors: this library on one of its runtimes, stock TFF on its worker, and a hand-written loop."""

import collections
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import tensorflow as tf

from experiments.benchmarks import models, work_items
from tff_momentum import garbage

if TYPE_CHECKING:
  from tff_momentum.models.model import Model
  from tff_momentum.processes.process import FederatedProcess


THROUGH_RUN = "run:"  # what the name of a competitor begins with that uses the trainer of run.py
ALGORITHM = "fedavgm"  # of competitors whose name gives none


class Competitor(Protocol):
  """One implementation of a work item; `initial` holds its initial weights."""

  initial: list[np.ndarray]

  def round(self) -> None:
    """Runs one round over all clients."""

  def weights(self) -> list[np.ndarray]:
    """The current global weights."""


class Ours:
  """This library on one of its runtimes."""

  def __init__(self, item: work_items.Item, runtime: str | None, algorithm: str = ALGORITHM):
    """Builds the process and the clients; without a `runtime`, computations run in TFF's default context."""
    with garbage.imports_to_keep():
      import tff_momentum as tfm
      from tff_momentum.processes.process import ClientInput

    if runtime is not None:
      tfm.set_execution_context(runtime)
    data = [
      tfm.ClientBatches(_examples(item, i), batch_size=item.batch) for i in range(item.clients)
    ]
    model = build_model(item)
    self._process = build_process(item, algorithm, model)
    self._state = self._process.initialize()
    seeds = [np.array([0, i], np.int32) for i in range(item.clients)]
    self._clients = [
      ClientInput(seed, self._process.initial_client_state(seed), batches)
      for seed, batches in zip(seeds, data, strict=True)
    ]
    self.initial = list(model.initial_weights)

  def round(self) -> None:
    """Runs one round."""
    output = self._process.next(self._state, self._clients)
    self._state = output.state
    self._clients = [
      client._replace(state=state)
      for client, state in zip(self._clients, output.clients, strict=True)
    ]

  def weights(self) -> list[np.ndarray]:
    """The model's weights."""
    return list(self._process.weights(self._state))


def build_model(item: work_items.Item) -> "Model":
  """The item's model; a batch is a dictionary with the keys x and y."""
  import tff_momentum as tfm

  def spec(array: np.ndarray) -> tf.TensorSpec:
    return tf.TensorSpec([None, *array.shape[1:]], array.dtype)

  x, y = map(spec, work_items.examples(item, 0))
  batch_spec = collections.OrderedDict(x=x, y=y)
  return tfm.from_keras(lambda: models.build(item), loss=models.loss(), batch_spec=batch_spec)


def build_process(item: work_items.Item, algorithm: str, model: "Model") -> "FederatedProcess":
  """The process that trains the item's model with an algorithm, weighted by the number of examples."""
  import tff_momentum as tfm
  from tff_momentum.algorithms import builder

  options: dict[str, Any] = dict(
    client_learning_rate=work_items.CLIENT_LEARNING_RATE, client_weighting="num_examples"
  )
  if algorithm == "scaffold":
    total = item.clients * item.examples
    options.update(num_clients=item.clients, total_examples=total)
  if algorithm == "ghbm":
    options.update(tau=1)
  return tfm.build_process(builder(algorithm)(**options), model)


class Stock:
  """The weighted FedAvg of `tff.learning` on the worker process of TFF's wheel."""

  def __init__(self, item: work_items.Item):
    import tensorflow_federated as tff

    import tff_momentum as tfm

    tfm.set_execution_context("tff")
    self._clients = [
      tf.data.Dataset.from_tensor_slices(_examples(item, i)).batch(item.batch)
      for i in range(item.clients)
    ]

    def model_fn():
      spec = self._clients[0].element_spec
      return tff.learning.models.from_keras_model(
        models.build(item), loss=models.loss(), input_spec=spec
      )

    sgdm = tff.learning.optimizers.build_sgdm
    self._process = tff.learning.algorithms.build_weighted_fed_avg(
      model_fn,
      client_optimizer_fn=sgdm(work_items.CLIENT_LEARNING_RATE),
      server_optimizer_fn=sgdm(1.0, work_items.SERVER_MOMENTUM),
    )
    self.initial = [v.numpy() for v in models.build(item).trainable_variables]
    weights = tff.learning.models.ModelWeights(trainable=self.initial, non_trainable=[])
    self._state = self._process.set_model_weights(self._process.initialize(), weights)

  def round(self) -> None:
    """Runs one round."""
    self._state = self._process.next(self._state, self._clients).state

  def weights(self) -> list[np.ndarray]:
    """The model's weights."""
    return list(self._process.get_model_weights(self._state).trainable)


class HandWrittenLoop:
  """A hand-written loop: clients one after the other, one `tf.function` call each."""

  def __init__(self, item: work_items.Item):
    steps = item.examples // item.batch
    self._clients = [
      [
        tf.constant(a.reshape((steps, item.batch, *a.shape[1:])))
        for a in work_items.examples(item, i)
      ]
      for i in range(item.clients)
    ]
    model, loss = models.build(item), models.loss()
    local = model.trainable_variables
    self.initial = [v.numpy() for v in local]
    self._server = server = [tf.Variable(v) for v in self.initial]
    momentum, total = ([tf.Variable(tf.zeros_like(v)) for v in server] for _ in range(2))

    @tf.function
    def train(x, y):
      for v, s in zip(local, server, strict=True):
        v.assign(s)
      for k in tf.range(steps):
        with tf.GradientTape() as tape:
          value = loss(y[k], model(x[k], training=True))
        for v, g in zip(local, tape.gradient(value, local), strict=True):
          v.assign_sub(work_items.CLIENT_LEARNING_RATE * tf.convert_to_tensor(g))
      for t, s, v in zip(total, server, local, strict=True):
        t.assign_add(item.examples * (s - v))

    @tf.function
    def update():
      for m, t, s in zip(momentum, total, server, strict=True):
        m.assign(work_items.SERVER_MOMENTUM * m + t / float(item.clients * item.examples))
        s.assign_sub(m)
        t.assign(tf.zeros_like(t))

    self._train, self._update = train, update

  def round(self) -> None:
    """Runs one round."""
    for x, y in self._clients:
      self._train(x, y)
    self._update()
    self._server[-1].numpy()

  def weights(self) -> list[np.ndarray]:
    """The global weights."""
    return [s.numpy() for s in self._server]


def build(name: str, item: work_items.Item) -> Competitor:
  """Builds a competitor by name.

  Args:
    name: `loop`, `stock`, `limit`, a runtime, or `run:` and a runtime for the trainer of run.py. All but the
      first two may end in an algorithm, as in `inprocess/mime`.
    item: the work item.
  """
  if name == "loop":
    return HandWrittenLoop(item)
  if name == "stock":
    return Stock(item)
  way, _, algorithm = name.partition("/")
  algorithm = algorithm or ALGORITHM
  if way == "limit":
    from experiments.benchmarks.limit import Limit

    return Limit(item, algorithm)
  if way.startswith(THROUGH_RUN):
    from experiments.benchmarks.through_run import ThroughRun

    return ThroughRun(item, way.removeprefix(THROUGH_RUN), algorithm)
  return Ours(item, way, algorithm)


def costs(item: work_items.Item) -> dict[str, float]:
  """The seconds of a batch's gradient and of a pass over the weights, on one thread."""
  model, loss = models.build(item), models.loss()
  variables = model.trainable_variables
  x, y = (tf.constant(array[: item.batch]) for array in work_items.examples(item, 0))
  steps = tf.constant(20)

  def descend(gradient):
    for v, g in zip(variables, gradient(), strict=True):
      v.assign(v - work_items.CLIENT_LEARNING_RATE * tf.convert_to_tensor(g))

  def gradient():
    with tf.GradientTape() as tape:
      value = loss(y, model(x, training=True))
    return tape.gradient(value, variables)

  @tf.function
  def passes():
    for _ in tf.range(steps):
      descend(lambda: variables)

  @tf.function
  def train():
    for _ in tf.range(steps):
      descend(gradient)

  def seconds(function) -> float:
    function()
    spent = []
    for _ in range(5):
      begin = time.perf_counter()
      function()
      spent.append(time.perf_counter() - begin)
    return min(spent) / int(steps)

  one_pass = seconds(passes) / 2  # one product and one difference
  return {"pass": one_pass, "gradient": seconds(train) - 2 * one_pass}


def _examples(item: work_items.Item, client: int) -> collections.OrderedDict:
  # An explicit copy: TensorFlow's implicit copies of arrays fragment the heap.
  x, y = (tf.raw_ops.DeepCopy(x=array) for array in work_items.examples(item, client))
  return collections.OrderedDict(x=x, y=y)
