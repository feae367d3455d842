"""TFF's own worker process, started with a time limit and ended together with this process.

The worker is the child of a small shell that waits for the end of a pipe, which this process holds open. When
this process ends for any reason (exit, exception, signal, kill -9), the pipe closes and the shell kills the
worker.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import weakref
from typing import Any

import grpc
import portpicker
import tensorflow as tf
import tensorflow_federated as tff
import tree
from absl import logging
from tensorflow_federated.python.core.backends.native import compiler as native_compiler
from tensorflow_federated.python.core.backends.test import compiler as test_compiler
from tensorflow_federated.python.core.environments.tensorflow_frontend import (
  tensorflow_computation,
)

from tff_momentum.runtime import compat
from tff_momentum.runtime.client_batches import ClientBatches
from tff_momentum.runtime.references import DataLeaf, DataReference

_SHELL = '"$@" & worker=$!; read -r _; kill -9 $worker'
_MAX_MESSAGE_BYTES = 2 * 1000**3
_CHANNEL_OPTIONS = [
  ("grpc.max_message_length", _MAX_MESSAGE_BYTES),
  ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
  ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
]


class WorkerProcess:
  """A running `worker_binary`; it ends with `stop` or with this process."""

  def __init__(self, startup_seconds: float, max_concurrent_calls: int = -1):
    self.port = portpicker.pick_unused_port()
    command = [
      worker_binary(),
      f"--port={self.port}",
      f"--max_concurrent_computation_calls={max_concurrent_calls}",
    ]
    self._output = tempfile.TemporaryFile()  # noqa: SIM115 (open while the worker lives)
    # In its own session, so that Ctrl-C reaches only this process, which then ends the worker.
    self._shell = subprocess.Popen(
      ["/bin/sh", "-c", _SHELL, "sh", *command],
      stdin=subprocess.PIPE,
      stdout=self._output,
      stderr=subprocess.STDOUT,
      start_new_session=True,
    )
    self.stop = weakref.finalize(self, _stop, self._shell)
    channel = grpc.insecure_channel(f"localhost:{self.port}", _CHANNEL_OPTIONS)
    self.stub = tff.framework.RemoteExecutorGrpcStub(channel)
    self._wait_until_ready(startup_seconds)

  @property
  def process_group(self) -> int:
    """The process group of the worker and its shell."""
    return self._shell.pid

  @property
  def is_ready(self) -> bool:
    """Whether the worker answers."""
    return self.stub.is_ready

  def _wait_until_ready(self, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not self.stub.is_ready:
      if time.monotonic() > deadline:
        self._output.seek(0)
        said = self._output.read()[-500:].decode(errors="replace").strip() or "nothing"
        self.stop()
        raise RuntimeError(
          f"Expected TFF's worker to answer on port {self.port} within {seconds:g} s, found no answer "
          f'(its output: {said}); raise worker_startup_seconds or use runtime="inprocess".'
        )
      time.sleep(0.05)


def worker_binary() -> str:
  """Returns the path of the worker in TFF's wheel."""
  path = os.path.join(os.path.dirname(tff.__file__), "data", "worker_binary")
  if not os.path.isfile(path):
    raise RuntimeError(
      f'Expected TFF\'s worker at {path}, found no file; reinstall TFF or use runtime="inprocess".'
    )
  return path


def _stop(shell: subprocess.Popen) -> None:
  with contextlib.suppress(ProcessLookupError):
    os.killpg(shell.pid, signal.SIGKILL)
  shell.wait()
  if shell.stdin is not None:
    shell.stdin.close()


def create_worker_context(
  default_num_clients: int = 0, startup_seconds: float = 60.0
) -> tff.framework.SyncContext:
  """Starts TFF's worker and returns a context that runs computations in it.

  The worker ends with this process. A worker that dies is replaced by a new one at the next computation.

  Args:
    default_num_clients: The cohort size of computations without arguments placed at clients.
    startup_seconds: How long to wait for the worker to answer.

  Raises:
    RuntimeError: The worker is missing, or does not answer in time.

  Example:

      context = runtime.create_worker_context()
      with tff.framework.get_context_stack().install(context):
        state = process.initialize()
  """
  logging.warning(
    "TFF's worker listens on all network interfaces of this machine, without a password, and has no flag to "
    'change that: use it only in a network that you trust, or use runtime="inprocess", which opens no port.'
  )
  compat.stop_eager_tensor_leak()
  worker = WorkerProcess(startup_seconds)

  def create_executor(cardinalities):
    nonlocal worker
    if not worker.is_ready:
      worker.stop()
      worker = WorkerProcess(startup_seconds)
    cardinalities.setdefault(tff.CLIENTS, default_num_clients)
    executor = tff.framework.RemoteExecutor(worker.stub)
    executor.set_cardinalities(cardinalities)
    return executor

  return tff.framework.SyncExecutionContext(
    executor_fn=tff.framework.ResourceManagingExecutorFactory(create_executor),
    compiler_fn=_compile,
    transform_args=_transform_args,
    transform_result=tensorflow_computation.transform_result,
  )


def _transform_args(arguments: Any) -> Any:
  """Replaces `ClientBatches` and references by data sets, which are all that the worker takes."""
  return tensorflow_computation.transform_args(tree.traverse(_to_dataset, arguments))


def _to_dataset(value: Any) -> tf.data.Dataset | None:
  if isinstance(value, DataReference):
    return DataLeaf(value, None).dataset()
  return value.as_dataset() if isinstance(value, ClientBatches) else None  # None keeps the value


def _compile(computation: tff.framework.ConcreteComputation):
  insecure = test_compiler.replace_secure_intrinsics_with_bodies(computation)
  return native_compiler.desugar_and_transform_to_native(insecure)
