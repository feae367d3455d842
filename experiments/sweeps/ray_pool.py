"""Runs sweep jobs as Ray tasks, one process per run, on the machines of a cluster.

The repository, the data and the sweep's folder must have the same path on every machine.
"""

import logging
import os
import pathlib
import signal
import time
from typing import Any

from experiments.cli.errors import UserError
from experiments.sweeps import local_pool
from experiments.sweeps.pool import JobResult, PoolJob
from tff_momentum.runtime.ray.address import check_listening

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCAL = "local"  # the address with which Ray starts a cluster on this machine


class RayPool:
  """Submits jobs to a cluster, which decides how many execute at the same time."""

  def __init__(self, address: str, *, num_cpus: float, num_gpus: float):
    self._ray = _connect(address)
    self._remote = self._ray.remote(
      num_cpus=num_cpus, num_gpus=num_gpus, max_retries=3, retry_exceptions=False
    )(run_job)
    self._threads = max(1, int(num_cpus))
    self.jobs = max(1, int(self._ray.cluster_resources().get("CPU", 1) // max(num_cpus, 1)))
    self._running: dict[Any, tuple[str, float]] = {}

  @property
  def running(self) -> list[str]:
    """The names of the jobs that were submitted and have not ended."""
    return [name for name, _ in self._running.values()]

  @property
  def free(self) -> int:
    """A number larger than any sweep: all jobs are submitted, and the cluster queues them."""
    return 1_000_000

  def start(self, job: PoolJob) -> None:
    """Submits a job."""
    task = self._remote.remote(job, os.getcwd(), self._threads)
    self._running[task] = job.name, time.monotonic()

  def ended(self, timeout: float) -> list[JobResult]:
    """Returns the jobs that ended; waits up to `timeout` seconds for the first of them."""
    if not self._running:
      return []
    ready, _ = self._ray.wait(list(self._running), timeout=timeout)
    return [self._result(task) for task in ready]

  def interrupt(self) -> None:
    """Asks every run to finish its round and save a checkpoint; cancels the queued ones."""
    for task in self._running:
      self._ray.cancel(task, force=False)

  def kill(self) -> None:
    """Kills every run."""
    for task in self._running:
      self._ray.cancel(task, force=True)

  def close(self) -> None:
    """Kills the runs that are left and disconnects from the cluster."""
    self.kill()
    self._ray.shutdown()

  def _result(self, task: Any) -> JobResult:
    name, began = self._running.pop(task)
    try:
      code = self._ray.get(task)
    except self._ray.exceptions.TaskCancelledError:
      code = -signal.SIGINT
    except self._ray.exceptions.RayError:
      code = -signal.SIGKILL
    return JobResult(name, code, time.monotonic() - began)


def run_job(job: PoolJob, folder: str, threads: int) -> int:
  """Runs a job in a Ray worker; if the task is cancelled, interrupts the job and waits for it to end."""
  os.chdir(folder)
  limits = {"OMP_NUM_THREADS": str(threads), "TF_NUM_INTRAOP_THREADS": str(threads)}
  process = local_pool.start(job, limits)
  try:
    return process.wait()
  except KeyboardInterrupt:
    process.send_signal(signal.SIGINT)
    return process.wait()
  finally:
    local_pool.signal_group(process, signal.SIGKILL)


def environment() -> dict[str, str]:
  """Returns the environment variables that runs on all nodes get.

  These are the search path, with this repository first, and the folder of the data sets.
  """
  path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
  data = os.environ.get("TFM_DATA_DIR")
  return {"PYTHONPATH": path, **({"TFM_DATA_DIR": os.path.abspath(data)} if data else {})}


def _connect(address: str) -> Any:
  try:
    import ray
  except ImportError:
    raise UserError(
      "--ray needs Ray, which is not installed; install the extra [cluster], or use --jobs."
    ) from None
  # A cluster that this process starts serves this machine only.
  own = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"} if address == LOCAL else {}
  try:
    check_listening(address)
    ray.init(
      address=address,  # with None, Ray would look for the last cluster started, and wait if it is gone
      log_to_driver=False,
      logging_level=logging.ERROR,
      runtime_env={"env_vars": environment()},
      **own,
    )
  except (ConnectionError, ValueError, RuntimeError) as error:
    reason = " ".join(str(error).split()).rstrip(".")
    raise UserError(
      f"--ray={address} must be the address of a Ray cluster, or {LOCAL} to start one here; {reason}."
    ) from None
  return ray
