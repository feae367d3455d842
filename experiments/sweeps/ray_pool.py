"""Runs as Ray tasks, one a run: the same processes, on whatever machines the cluster has.

The checkout, the data and the sweep's folder must be at the same path on all of them.
"""

import os
import pathlib
import signal
import time
from typing import Any

from experiments.cli.errors import UserError
from experiments.sweeps import local_pool
from experiments.sweeps.local_pool import JobResult, PoolJob

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCAL = "local"  # to us as to Ray, the address that means: start a cluster on this machine


class RayPool:
  """Hands jobs to a cluster, which decides how many run at once."""

  def __init__(self, address: str, *, num_cpus: float, num_gpus: float):
    self._ray = _connect(address)
    self._remote = self._ray.remote(
      num_cpus=num_cpus, num_gpus=num_gpus, max_retries=3, retry_exceptions=False
    )(run_job)
    self._threads = max(1, int(num_cpus))
    # How many the cluster can run at once, for an estimate of the time left.
    self.jobs = max(1, int(self._ray.cluster_resources().get("CPU", 1) // max(num_cpus, 1)))
    self._running: dict[Any, tuple[str, float]] = {}

  @property
  def running(self) -> list[str]:
    """The names of the jobs handed over and not ended."""
    return [name for name, _ in self._running.values()]

  @property
  def free(self) -> int:
    """How many more to hand over: all, the cluster keeps the queue."""
    return 1_000_000

  def start(self, job: PoolJob) -> None:
    """Hands a job over."""
    task = self._remote.remote(job, os.getcwd(), self._threads)
    self._running[task] = job.name, time.monotonic()

  def ended(self, patience: float) -> list[JobResult]:
    """Jobs that have ended; waits for the first of them, not longer than so many seconds."""
    if not self._running:
      return []
    ready, _ = self._ray.wait(list(self._running), timeout=patience)
    return [self._result(task) for task in ready]

  def interrupt(self) -> None:
    """Asks every run to finish its round and save; what has not begun never does."""
    for task in self._running:
      self._ray.cancel(task, force=False)

  def kill(self) -> None:
    """Ends every run at once."""
    for task in self._running:
      self._ray.cancel(task, force=True)

  def close(self) -> None:
    """Ends what still runs, and leaves the cluster."""
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
  """Runs a job to its end, in a Ray worker; a cancelled task interrupts it and waits."""
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


def _connect(address: str) -> Any:
  try:
    import ray
  except ImportError:
    raise UserError(
      "--ray needs Ray, which is not installed; install the extra [cluster], or use --jobs."
    ) from None
  # A cluster of our own is for this machine alone.
  own = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"} if address == LOCAL else {}
  try:
    ray.init(
      address=address,  # None would look for whatever cluster was started last, and wait if it is gone
      log_to_driver=False,
      runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
      **own,
    )
  except (ConnectionError, ValueError, RuntimeError) as error:
    raise UserError(
      f"--ray={address} must be the address of a Ray cluster, or {LOCAL} to start one here; {error}."
    ) from None
  return ray
