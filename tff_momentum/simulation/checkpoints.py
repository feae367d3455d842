"""Checkpoints of a run: the server's state and the clients' states after the same round.

A checkpoint is a folder such as `00000050/`, with a manifest of the SHA-256 digests of its files. It is
written under a temporary name, synced to disk and then renamed, so a process killed at any instant leaves a
complete checkpoint or none. `resume` skips a checkpoint whose digests do not match, with a warning.
"""

import hashlib
import json
import os
import pathlib
import shutil
import warnings

import numpy as np
import tensorflow as tf

from tff_momentum import validation
from tff_momentum.processes.exchange import specs
from tff_momentum.processes.process import FederatedProcess, ProcessState
from tff_momentum.simulation.client_store import ClientStore
from tff_momentum.simulation.state_records import StateCodec

_MANIFEST = "manifest.json"
_FILES = ("server", "clients")  # listed in the manifest


class Checkpoints:
  """The checkpoints of one run.

  Example, for a `process` from `build_process`::

      store = MemoryStore(loop.client_initializer(process, seed=0))
      checkpoints = Checkpoints("my_run/checkpoints", process, store)
      state = checkpoints.resume()  # the initial state if there is no checkpoint
      for finished in loop.rounds(process, task, state=state, store=store, total_rounds=100, ...):
        if (finished.number + 1) % 10 == 0:
          checkpoints.save(finished.state)
  """

  def __init__(
    self,
    folder: str | pathlib.Path,
    process: FederatedProcess,
    store: ClientStore,
    *,
    keep: int = 2,
  ):
    """Reads and writes nothing yet.

    Args:
      folder: where the checkpoints are; created by the first `save`.
      process: the process whose states are saved.
      store: the clients' states, saved and restored together with the server's.
      keep: number of checkpoints to keep.

    Raises:
      ValueError: `keep` is less than 1.
    """
    self._folder = pathlib.Path(folder)
    self._store = store
    self._keep = validation.integer("keep", keep, at_least=1)
    self._initialize = process.initialize
    state_type = process.initialize.type_signature.result.member
    self._codec = StateCodec(tf.nest.map_structure(_without_memory, specs(state_type)))

  def save(self, state: ProcessState) -> None:
    """Writes a checkpoint of this state and of the store, then deletes the oldest ones.

    Args:
      state: the state after a round; the store must hold the clients' states after the same round.
    """
    name = f"{int(state.round):08d}"
    part = self._folder / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with open(part / "server", "wb") as file:
      file.writelines(self._codec.parts(state))
    self._store.snapshot(part / "clients")
    (part / _MANIFEST).write_text(json.dumps({file: _digest(part / file) for file in _FILES}))
    for path in (*part.iterdir(), part):
      _sync(path)
    final = self._folder / name
    shutil.rmtree(final, ignore_errors=True)
    os.replace(part, final)
    _sync(self._folder)
    self._delete_oldest()

  def resume(self) -> ProcessState:
    """Returns the state of the newest intact checkpoint and restores the store to it.

    Without an intact checkpoint, clears the store and returns the initial state. Warns about each checkpoint
    that cannot be used.
    """
    for folder in reversed(self._complete()):
      try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        if any(_digest(folder / file) != manifest[file] for file in _FILES):
          raise ValueError("its contents do not match its manifest")
        with open(folder / "server", "rb") as file:
          state = self._codec.read(file)
        self._store.restore(folder / "clients")
      except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.warn(f"The checkpoint {folder.name} cannot be used ({error}).", stacklevel=2)
        continue
      return state
    self._store.clear()
    return self._initialize()

  def _complete(self) -> list[pathlib.Path]:
    """The folders of all complete checkpoints, oldest first."""
    return sorted(path for path in self._folder.glob("*") if path.name.isdecimal())

  def _delete_oldest(self) -> None:
    complete = self._complete()
    # First the checkpoints, then what they need of the store: a kill in between leaves none that is broken.
    for folder in complete[: -self._keep]:
      shutil.rmtree(folder)
    self._store.release(complete[-self._keep :][0] / "clients")


def _without_memory(spec: tf.TensorSpec) -> np.ndarray:
  """An array of a tensor's type and shape that takes no memory: a second copy of a state may not fit."""
  return np.broadcast_to(np.zeros([], spec.dtype.as_numpy_dtype), spec.shape)


def _digest(path: pathlib.Path) -> str:
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: pathlib.Path) -> None:
  """Makes sure that a file's contents, or a folder's list of names, are on disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)
