"""The checks of `experiments/doctor.py`: each returns one line about what it found, and a fix.

Heavy modules are imported by the checks that need them.
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
INSTALL = "install the pinned packages: `uv sync`, or `pip install --no-deps -r requirements.lock`"
GIGABYTE = 1000**3
LEAST_DISK, LEAST_MEMORY = 2 * GIGABYTE, 2 * GIGABYTE


@dataclasses.dataclass(frozen=True)
class CheckResult:
  """What a check found, and how to fix it if it is not ok."""

  ok: bool
  found: str
  fix: str = ""


def python(arguments: argparse.Namespace) -> CheckResult:
  """The version of Python; TensorFlow 2.14 and TFF 0.87 together have wheels for Python 3.11 only."""
  wanted = project()["project"]["requires-python"]
  found = ".".join(map(str, sys.version_info[:3]))
  return CheckResult(
    sys.version_info[:2] == (3, 11), f"{found} (expected: {wanted})", "install Python 3.11"
  )


def packages(arguments: argparse.Namespace) -> CheckResult:
  """The installed versions against the pinned ones; extras may be missing."""
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
      wrong.append(f"{name} {found} (expected: {wanted})")
  listed = f"; different: {', '.join(wrong)}" if wrong else ""
  return CheckResult(not wrong, f"{as_pinned} packages as pinned{listed}", INSTALL)


def devices(arguments: argparse.Namespace) -> CheckResult:
  """A matrix product on every device, compared with NumPy."""
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
    # A GPU may use TensorFloat-32, which has a 10-bit mantissa.
    error = float(np.abs(product - expected).max() / np.abs(expected).max())
    ok = ok and error < 5e-3
    short = device.name.removeprefix("/device:")
    said.append(
      f"{short} multiplies 512×512 in {1000 * took:.1f} ms"
      + ("" if error < 5e-3 else ", incorrectly")
    )
  if shutil.which("nvidia-smi") and not tf.config.list_physical_devices("GPU"):
    return CheckResult(False, "; ".join(said) + "; TensorFlow does not see this machine’s GPU",
                "install the CUDA libraries with the extra gpu, or use --devices=cpu")  # fmt: skip
  return CheckResult(ok, "; ".join(said), "update the device’s driver, or use --devices=cpu")


def training(arguments: argparse.Namespace) -> CheckResult:
  """Thirty rounds of FedAvg on digits with the in-process runtime."""
  import numpy as np

  import tasks
  from tff_momentum import algorithms, build_process, runtime, set_execution_context
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
  fast = runtime.reads_by_index(task.dataset(task.clients[0], np.zeros(2, np.int32), 10))
  found = (
    f"30 rounds of fedavg on digits in {took:.1f} s, batches {'by index' if fast else 'by iterators'}: "
    f"accuracy {accuracy:.2f} (expected: by index, above 0.5)"
  )
  return CheckResult(fast and accuracy > 0.5, found, INSTALL)


def tff_worker(arguments: argparse.Namespace) -> CheckResult:
  """Starts TFF's worker, which `--runtime=tff` needs, and computes a sum."""
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
  """Connects to the cluster of --ray; without the flag, checks only whether Ray is installed."""
  try:
    version = importlib.metadata.version("ray")
  except importlib.metadata.PackageNotFoundError:
    fix = "install the extra: `uv sync --extra cluster`, or `pip install ray` as requirements.lock pins it"
    return CheckResult(not arguments.ray, "not installed; only --runtime=ray needs it", fix)
  if not arguments.ray:
    return CheckResult(True, f"{version} is installed; --ray=ADDRESS checks a cluster")
  import ray as ray_lib

  from tff_momentum.runtime.ray.address import check_listening

  try:
    check_listening(arguments.ray)
    ray_lib.init(address=arguments.ray, log_to_driver=False, logging_level="ERROR")
    answers = ray_lib.get(ray_lib.remote(os.getpid).remote(), timeout=60)
    nodes = sum(node["Alive"] for node in ray_lib.nodes())
    resources = ray_lib.cluster_resources()
  except (ConnectionError, ValueError, TimeoutError, RuntimeError) as error:
    return CheckResult(False, f"no cluster at {arguments.ray} ({str(error).splitlines()[0][:120]})",
                "start one with `ray start --head` and give its address")  # fmt: skip
  counts = f"{resources.get('CPU', 0):.0f} CPUs, {resources.get('GPU', 0):.0f} GPUs"
  return CheckResult(answers > 0, f"{version}, {arguments.ray}: {nodes} machines, {counts}")


def data(arguments: argparse.Namespace) -> CheckResult:
  """The data sets on this disk, broken files, and incomplete downloads."""
  from tasks.data import folders

  folder = folders.root(arguments.data_dir)
  if not folder.is_dir():
    missing = f"{folder} does not exist"
    if arguments.data_dir:
      return CheckResult(False, missing, "give the folder that contains tff/ and tfds/")
    return CheckResult(True, f"none yet ({missing}); digits, quadratic and diabetes need none")
  parts = [folder / name for name in ("tff", "tfds") if (folder / name).is_dir()]
  files = [path for part in parts for path in sorted(part.rglob("*")) if path.is_file()]
  broken = [str(path.relative_to(folder)) for path in files if _is_broken(path)]
  if broken:
    return CheckResult(
      False,
      f"{folder}: not SQLite files: {', '.join(broken)}",
      "delete them; the next run downloads them again",
    )
  size = sum(path.stat().st_size for path in files) / GIGABYTE
  names = ", ".join(child.name for part in parts for child in sorted(part.iterdir())) or "none"
  half = sum(path.suffix in (".download", ".part") for path in files)
  more = f"; {half} incomplete, which the next run resumes" if half else ""
  return CheckResult(True, f"{folder}: {size:.2f} GB in {len(files)} files ({names}){more}")


def _is_broken(path: pathlib.Path) -> bool:
  """Whether a .sqlite file lacks the SQLite header."""
  if path.suffix != ".sqlite":
    return False
  with open(path, "rb") as file:
    return file.read(16) != b"SQLite format 3\0"


def disk(arguments: argparse.Namespace) -> CheckResult:
  """The free disk space for runs and data."""
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
  return CheckResult(ok, ", ".join(said), "free some space: runs and checkpoints need 2 GB or more")


def memory(arguments: argparse.Namespace) -> CheckResult:
  """The memory available to a run."""
  free = free_memory()
  if free is None:
    return CheckResult(True, "unknown on this system")
  return CheckResult(
    free >= LEAST_MEMORY,
    f"{free / GIGABYTE:.1f} GB free",
    "close other programs; a run needs 2 GB or more",
  )


def free_memory() -> int | None:
  """The available memory in bytes, within the container's limit if there is one; None if it is unknown."""
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
  except (OSError, ValueError):  # not in a container, or no limit
    return free
  return left if free is None else min(free, left)


def project() -> dict:
  """The contents of pyproject.toml."""
  return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
