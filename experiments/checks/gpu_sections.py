"""The sections of `experiments/gpu_check.py`; each returns values for its JSON report."""

import contextlib
import dataclasses
import importlib.metadata
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from experiments.benchmarks import competitors, work_items
from experiments.training import build
from tasks.task import Task
from tff_momentum.processes.process import build_process
from tff_momentum.runtime import create_inprocess_context, gpu_decisions, gpu_machine
from tff_momentum.runtime.devices import available_cores
from tff_momentum.simulation import loop

JSON = dict[str, Any]
IN_FLIGHT = (1, 2, 4, 8)
# A GPU adds in another order than a CPU, so one round agrees to about this much.
AGREEMENT = 1e-3
CPU = "/device:CPU:0"


def machine(names: Sequence[str], options: gpu_decisions.Options) -> JSON:
  """The devices, the libraries that were found, and what follows from them."""
  described = gpu_machine.describe()
  decisions = gpu_decisions.decide(described, options)
  return {
    "python": platform.python_version(),
    "tensorflow": importlib.metadata.version("tensorflow"),
    "built_for": {k: v for k, v in tf.sysconfig.get_build_info().items() if "cud" in k},
    "cores": described.cores,
    "driver": None if described.driver is None else ".".join(map(str, described.driver)),
    "gpus": [gpu._asdict() for gpu in described.gpus],
    "libraries": sorted(described.libraries),
    "devices": list(names),
    "slots": decisions.slots,
    "tf32": decisions.tf32,
    "xla_flags": decisions.xla_flags,
    "sentences": [sentence.text for sentence in decisions.sentences],
    "problems": sum(sentence.is_problem for sentence in decisions.sentences),
  }


def kernels(names: Sequence[str]) -> list[JSON]:
  """A compiled convolution, max-pooling gradient and LSTM on each device, against the CPU's numbers."""
  draw = np.random.default_rng(0)
  images = draw.standard_normal((8, 28, 28, 3)).astype(np.float32)
  filters = draw.standard_normal((3, 3, 3, 16)).astype(np.float32)
  words = draw.standard_normal((4, 8, 8)).astype(np.float32)

  def convolution(x, w):
    with tf.GradientTape() as tape:
      tape.watch(w)
      y = tf.reduce_sum(tf.square(tf.nn.conv2d(x, w, 1, "SAME")))
    return tape.gradient(y, w)

  def max_pool_gradient(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.reduce_sum(tf.square(tf.nn.max_pool2d(x, 2, 2, "VALID")))
    return tape.gradient(y, x)

  weights = [draw.standard_normal(shape).astype(np.float32) for shape in ((8, 64), (16, 64), (64,))]
  tried: dict[str, tuple[Callable, list]] = {
    "convolution": (convolution, [images, filters]),
    "max-pooling gradient": (max_pool_gradient, [images]),
    "LSTM": (_lstm, [words, *weights]),
  }
  return [
    {"device": name, "kernel": what, **_agrees(function, inputs, name)}
    for name in names
    for what, (function, inputs) in tried.items()
  ]


def _lstm(x, kernel, recurrent, bias):
  """An LSTM over time as a loop inside the graph, and the gradient of its weights."""

  def step(state, x_t):
    h, c = state
    i, f, g, o = tf.split(tf.matmul(x_t, kernel) + tf.matmul(h, recurrent) + bias, 4, axis=1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c

  with tf.GradientTape() as tape:
    tape.watch(kernel)
    state = (tf.zeros([x.shape[0], 16]),) * 2
    for t in range(x.shape[1]):
      state = step(state, x[:, t])
    y = tf.reduce_sum(state[0])
  return tape.gradient(y, kernel)


def _agrees(function: Callable, inputs: list, device: str) -> JSON:
  with tf.device(CPU):
    expected = function(*map(tf.constant, inputs)).numpy()
  compiled = tf.function(function, jit_compile=True)
  try:
    with tf.device(device):
      tensors = [tf.constant(value) for value in inputs]
      begin = time.perf_counter()
      found = compiled(*tensors).numpy()
      first = time.perf_counter() - begin
      begin = time.perf_counter()
      compiled(*tensors).numpy()
      took = time.perf_counter() - begin
  except tf.errors.OpError as error:
    return {"ok": False, "error": " ".join(str(error).split())[:200]}
  distance = difference([found], [expected])
  agrees = distance < AGREEMENT
  return {"ok": agrees, "difference": distance, "compile_s": first, "seconds": took}


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
  """The largest difference, relative to the largest number."""
  largest = max(float(np.abs(e).max(initial=0.0)) for e in expected) or 1.0
  pairs = zip(found, expected, strict=True)
  return (
    max(float(np.abs(np.asarray(f, np.float64) - e).max(initial=0.0)) for f, e in pairs) / largest
  )


def algorithms(names: Sequence[str], which: Sequence[str]) -> list[JSON]:
  """One round of every algorithm on the devices, against the CPU's numbers."""
  task = tasks.load("digits", seed=1, num_clients=20)
  found = []
  for name in which:
    try:
      algorithm = build.build_algorithm(name, {}, task, 4, max_staleness=_staleness(name))
      process = build_process(algorithm, task.model)
      rounds = [_one_round(process, task, devices) for devices in ([CPU], list(names))]
      distance = difference(rounds[1], rounds[0])
      found.append({"algorithm": name, "ok": distance < AGREEMENT, "difference": distance})
    except Exception as error:
      found.append({"algorithm": name, "ok": False, "error": " ".join(str(error).split())[:200]})
  return found


def _staleness(name: str) -> int | None:
  from tff_momentum import registry

  return 10 if "max_staleness" in registry.info(name).hyperparameters else None


def _one_round(process: Any, task: Task, devices: list[str]) -> list[np.ndarray]:
  tff.framework.set_default_context(create_inprocess_context(devices))
  result = loop.run(process, task, total_rounds=1, clients_per_round=4, client_batch_size=10, seed=1,
                    rounds_per_eval=0)  # fmt: skip
  return [np.asarray(weight) for weight in result.weights]


def items(names: Sequence[str], which: Sequence[str], rounds: int, share: float) -> list[JSON]:
  """The benchmark's items on the CPU, on one device with several clients in flight, on 1 to n devices.

  Args:
    names: The devices.
    which: The items.
    rounds: The number of timed rounds.
    share: The fraction of an item's clients and examples to take.
  """
  found = []
  for name in which:
    item = _smaller(work_items.ITEMS[name], share)
    tff.framework.set_default_context(create_inprocess_context([CPU]))
    ours = competitors.Ours(item, None)
    for label, devices, in_flight in settings(names):
      context = create_inprocess_context(devices, in_flight)
      tff.framework.set_default_context(context)
      row: JSON = {"item": name, "setting": label, "devices": len(devices), "in_flight": in_flight}
      with sampled_gpus() as samples:
        row.update(_timed(ours, rounds))
      found.append({**row, **samples})
  return found


def settings(names: Sequence[str]) -> Iterator[tuple[str, list[str], int]]:
  """Yields label, devices and clients in flight of everything that is timed."""
  yield "CPU", [CPU], available_cores()
  for in_flight in IN_FLIGHT:
    yield f"1 device, {in_flight} in flight", [names[0]], in_flight
  for count in range(2, len(names) + 1):
    yield f"{count} devices", list(names[:count]), count


def _smaller(item: work_items.Item, share: float) -> work_items.Item:
  clients = max(2, round(share * item.clients))
  batches = max(1, round(share * item.examples / item.batch))
  return dataclasses.replace(item, clients=clients, examples=batches * item.batch)


def _timed(ours: competitors.Ours, rounds: int) -> JSON:
  """Median times of a round: by the clock, in the head's Python, and of all threads' processors."""
  begin = time.perf_counter()
  ours.round()
  first = time.perf_counter() - begin
  walls, heads, processors = [], [], []
  for _ in range(rounds):
    wall, head, processor = time.perf_counter(), time.thread_time(), time.process_time()
    ours.round()
    walls.append(time.perf_counter() - wall)
    heads.append(time.thread_time() - head)
    processors.append(time.process_time() - processor)
  middle = statistics.median
  return {
    "seconds": middle(walls),
    "first_s": first,
    "python_s": middle(heads),
    "cpu_s": middle(processors),
  }


def copies(names: Sequence[str], megabytes: int = 64) -> list[JSON]:
  """The bandwidth between the host and each device, by which copied bytes become seconds."""
  array = np.ones(megabytes * 2**18, np.float32)
  found = []
  for name in names:
    with tf.device(CPU):
      on_host = tf.constant(array)
    spent: dict[str, list[float]] = {"to": [], "from": []}
    for _ in range(4):
      begin = time.perf_counter()
      with tf.device(name):
        there = tf.identity(on_host)
        _wait(there)
      spent["to"].append(time.perf_counter() - begin)
      begin = time.perf_counter()
      there.numpy()
      spent["from"].append(time.perf_counter() - begin)
    rates = {f"{way}_gb_per_s": megabytes / 1024 / min(times[1:]) for way, times in spent.items()}
    found.append({"device": name, **rates})
  return found


def _wait(tensor: tf.Tensor) -> None:
  """Waits until a device has computed a tensor."""
  tensor[:1].numpy()


@contextlib.contextmanager
def sampled_gpus(period: float = 0.05) -> Iterator[JSON]:
  """Yields a dictionary that holds, after the block, the GPUs' utilisation and memory, with pynvml."""
  samples: JSON = {}
  try:
    import pynvml

    pynvml.nvmlInit()
  except Exception:  # not installed, or no driver
    yield samples
    return
  handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
  busy: list[float] = []
  used: list[int] = []
  ended = threading.Event()

  def sample() -> None:
    while not ended.wait(period):
      busy.append(max(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles))
      used.append(max(pynvml.nvmlDeviceGetMemoryInfo(handle).used for handle in handles))

  thread = threading.Thread(target=sample, daemon=True)
  thread.start()
  try:
    yield samples
  finally:
    ended.set()
    thread.join()
    if busy:
      samples.update(utilisation=statistics.mean(busy), memory_gb=max(used) / 2**30)
