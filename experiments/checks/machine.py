"""The checks of `experiments/doctor.py`: each says in one line what it found, and what to do about it.

Nothing heavy is imported before the check that needs it.
"""

import argparse
import dataclasses
import importlib.metadata
import os
import pathlib
import shutil
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALL = "install what is pinned: `uv sync`, or `pip install --no-deps -r requirements.lock`"
GIGABYTE = 1000**3
LEAST_DISK, LEAST_MEMORY = 2 * GIGABYTE, 2 * GIGABYTE


@dataclasses.dataclass(frozen=True)
class CheckResult:
  """What a check found, and what to do if that is not right."""

  ok: bool
  found: str
  fix: str = ""


def python(arguments: argparse.Namespace) -> CheckResult:
  """TensorFlow 2.14 and TFF 0.87 have wheels for few versions of Python."""
  wanted = project()["project"]["requires-python"]
  found = ".".join(map(str, sys.version_info[:3]))
  return CheckResult(
    sys.version_info[:2] == (3, 11), f"{found} (wanted: {wanted})", "install Python 3.11"
  )


def packages(arguments: argparse.Namespace) -> CheckResult:
  """What is installed against what is pinned; an extra that is not installed is not missed."""
  required = {pin.partition("==")[0] for pin in project()["project"]["dependencies"]}
  pins = dict(pin.split("==") for pin in (ROOT / "requirements.lock").read_text().split())
  wrong, as_pinned = [], 0
  for name, wanted in pins.items():
    try:
      found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      found = "none"
    as_pinned += found == wanted
    if found != wanted and (found != "none" or name in required):
      wrong.append(f"{name} {found} (wanted: {wanted})")
  listed = f"; not so: {', '.join(wrong)}" if wrong else ""
  return CheckResult(not wrong, f"{as_pinned} packages as pinned{listed}", INSTALL)


def devices(arguments: argparse.Namespace) -> CheckResult:
  """A matrix product on every device, compared with NumPy's."""
  import numpy as np
  import tensorflow as tf

  rng = np.random.default_rng(0)
  left, right = rng.normal(size=(2, 512, 512)).astype(np.float32)
  expected = left.astype(np.float64) @ right.astype(np.float64)
  said, ok = [], True
  for device in [*tf.config.list_logical_devices("GPU"), *tf.config.list_logical_devices("CPU")]:
    with tf.device(device.name):
      tf.linalg.matmul(left, right).numpy()
      started = time.perf_counter()
      product = tf.linalg.matmul(left, right).numpy()
      took = time.perf_counter() - started
    # A GPU may multiply in TensorFloat-32, with a mantissa of 10 bits.
    error = float(np.abs(product - expected).max() / np.abs(expected).max())
    ok = ok and error < 5e-3
    short = device.name.removeprefix("/device:")
    said.append(
      f"{short} multiplies 512×512 in {1000 * took:.1f} ms" + ("" if error < 5e-3 else ", wrongly")
    )
  if shutil.which("nvidia-smi") and not tf.config.list_physical_devices("GPU"):
    return CheckResult(False, "; ".join(said) + "; TensorFlow does not see this machine’s GPU",
                "install CUDA’s libraries with the extra gpu, or use --devices=cpu")  # fmt: skip
  return CheckResult(ok, "; ".join(said), "update the device’s driver, or use --devices=cpu")


def training(arguments: argparse.Namespace) -> CheckResult:
  """A few rounds of FedAvg on digits, through our own process and runtime."""
  import tasks
  from tff_momentum import algorithms, build_process, set_execution_context
  from tff_momentum.simulation import loop

  set_execution_context("inprocess")
  task = tasks.loader("digits")(seed=1)
  rate = task.defaults.client_learning_rate
  process = build_process(algorithms.fedavg(client_learning_rate=rate), task.model)
  started = time.perf_counter()
  history = loop.run(
    process,
    task,
    total_rounds=30,
    clients_per_round=10,
    client_batch_size=10,
    seed=1,
    rounds_per_eval=15,
  ).history
  took = time.perf_counter() - started
  accuracy = history[-1]["eval/accuracy"]
  found = (
    f"30 rounds of fedavg on digits in {took:.1f} s: accuracy {accuracy:.2f} (expected: above 0.5)"
  )
  return CheckResult(accuracy > 0.5, found, INSTALL)


def tff_worker(arguments: argparse.Namespace) -> CheckResult:
  """TFF's own worker, which `--runtime=tff` needs, started and asked for a sum."""
  import numpy as np
  import tensorflow_federated as tff

  from tff_momentum import set_execution_context

  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def total(values):
    return tff.federated_sum(values)

  started = time.perf_counter()
  set_execution_context("tff")
  found = int(total([1, 2, 3]))
  took = time.perf_counter() - started
  return CheckResult(found == 6, f"started and summed 1, 2, 3 to {found} in {took:.1f} s",
              "reinstall tensorflow-federated, or use --runtime=inprocess")  # fmt: skip


def ray(arguments: argparse.Namespace) -> CheckResult:
  """The cluster that --ray names; without it, only whether Ray is there."""
  try:
    version = importlib.metadata.version("ray")
  except importlib.metadata.PackageNotFoundError:
    fix = "install the extra: `uv sync --extra cluster`, or `pip install ray` as requirements.lock pins it"
    return CheckResult(not arguments.ray, "not installed; only --runtime=ray needs it", fix)
  if not arguments.ray:
    return CheckResult(True, f"{version} is installed; --ray=ADDRESS tries a cluster")
  import ray as ray_lib

  try:
    ray_lib.init(address=arguments.ray, log_to_driver=False, logging_level="ERROR")
    answers = ray_lib.get(ray_lib.remote(os.getpid).remote(), timeout=60)
    nodes = sum(node["Alive"] for node in ray_lib.nodes())
    resources = ray_lib.cluster_resources()
  except (ConnectionError, ValueError, TimeoutError, RuntimeError) as error:
    return CheckResult(False, f"no cluster at {arguments.ray} ({str(error).splitlines()[0][:120]})",
                "start one with `ray start --head`, and give its address")  # fmt: skip
  counts = f"{resources.get('CPU', 0):.0f} CPUs, {resources.get('GPU', 0):.0f} GPUs"
  return CheckResult(answers > 0, f"{version}, {arguments.ray}: {nodes} machines, {counts}")


def data(arguments: argparse.Namespace) -> CheckResult:
  """The data sets kept on this disk, and files that are broken or were left half done."""
  from tasks.data import folders

  folder = folders.root(arguments.data_dir)
  if not folder.is_dir():
    missing = f"{folder} does not exist"
    if arguments.data_dir:
      return CheckResult(
        False, missing, "name the folder of the data sets, with tff/ and tfds/ in it"
      )
    return CheckResult(True, f"none yet ({missing}); digits, quadratic and diabetes need none")
  parts = [folder / name for name in ("tff", "tfds") if (folder / name).is_dir()]
  files = [path for part in parts for path in sorted(part.rglob("*")) if path.is_file()]
  broken = [str(path.relative_to(folder)) for path in files if _is_broken(path)]
  if broken:
    return CheckResult(
      False, f"{folder}: no SQLite file: {', '.join(broken)}", "delete it; a run fetches it again"
    )
  size = sum(path.stat().st_size for path in files) / GIGABYTE
  names = ", ".join(child.name for part in parts for child in sorted(part.iterdir())) or "none"
  half = sum(path.suffix in (".download", ".part") for path in files)
  more = f"; {half} half done, which the next run goes on with" if half else ""
  return CheckResult(True, f"{folder}: {size:.2f} GB in {len(files)} files ({names}){more}")


def _is_broken(path: pathlib.Path) -> bool:
  """Whether a data base does not begin as one does."""
  if path.suffix != ".sqlite":
    return False
  with open(path, "rb") as file:
    return file.read(16) != b"SQLite format 3\0"


def disk(arguments: argparse.Namespace) -> CheckResult:
  """Room where runs and data are written."""
  from tasks.data import folders

  said, ok = [], True
  for what, wanted in (
    ("here", pathlib.Path.cwd()),
    ("for data", folders.root(arguments.data_dir)),
  ):
    there = next(path for path in (wanted, *wanted.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    ok = ok and free >= LEAST_DISK
    said.append(f"{free / GIGABYTE:.1f} GB free {what}")
  return CheckResult(ok, ", ".join(said), "make room: runs and checkpoints want 2 GB or more")


def memory(arguments: argparse.Namespace) -> CheckResult:
  """Memory that a run may still take."""
  free = free_memory()
  if free is None:
    return CheckResult(True, "unknown on this system")
  return CheckResult(
    free >= LEAST_MEMORY,
    f"{free / GIGABYTE:.1f} GB free",
    "end other programs; a run wants 2 GB or more",
  )


def free_memory() -> int | None:
  """The bytes of memory free, within a container's limit if there is one; None where that cannot be told."""
  try:
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
  except OSError:
    return None
  free = next(
    (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None
  )
  group = pathlib.Path("/sys/fs/cgroup")
  try:
    left = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
  except (OSError, ValueError):  # no container, or one without a limit
    return free
  return left if free is None else min(free, left)


def project() -> dict:
  """The project's own description."""
  return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
