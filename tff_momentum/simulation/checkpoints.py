"""Checkpoints: the server's state, the clients' states and what else a run must remember, all of one round.

A checkpoint is a folder `00000050/` with a manifest that holds a digest of every file. It is written under
another name, forced out to disk, renamed when complete: a process killed at any instant leaves it whole
or not there. One whose digests do not fit is passed over for the one before it, and that is said.
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
_FILES = ("server", "clients")  # what the manifest has the digests of


class Checkpoints:
  """The checkpoints of one run."""

  def __init__(
    self,
    folder: str | pathlib.Path,
    process: FederatedProcess,
    store: ClientStore,
    *,
    keep: int = 2,
  ):
    """Takes the folder of all checkpoints, what they are of, and how many to keep."""
    self._folder = pathlib.Path(folder)
    self._store = store
    self._keep = validation.integer("keep", keep, at_least=1)
    self._initialize = process.initialize
    state_type = process.initialize.type_signature.result.member
    self._codec = StateCodec(tf.nest.map_structure(_without_memory, specs(state_type)))

  def save(self, state: ProcessState) -> None:
    """Writes a checkpoint of this state and of the clients' states in the store."""
    name = f"{int(state.round):08d}"
    part = self._folder / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with open(part / "server", "wb") as file:
      file.writelines(self._codec.parts(state))
    self._store.snapshot(part / "clients")
    (part / _MANIFEST).write_text(json.dumps({file: _digest(part / file) for file in _FILES}))
    for path in (*part.iterdir(), part):
      _force_out(path)
    final = self._folder / name
    shutil.rmtree(final, ignore_errors=True)
    os.replace(part, final)
    _force_out(self._folder)
    self._tidy()

  def resume(self) -> ProcessState:
    """Brings back the newest whole checkpoint, the clients' states with it; or the very start."""
    for folder in reversed(self._complete()):
      try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        if any(_digest(folder / file) != manifest[file] for file in _FILES):
          raise ValueError("its contents are not what was written")
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
    return sorted(path for path in self._folder.glob("*") if path.name.isdecimal())

  def _tidy(self) -> None:
    kept = self._complete()[-self._keep :]
    # A checkpoint is gone before what it would need of the store is.
    for folder in self._complete()[: -self._keep]:
      shutil.rmtree(folder)
    self._store.release(kept[0] / "clients")


def _without_memory(spec: tf.TensorSpec) -> np.ndarray:
  """An array of a tensor's type and shape: a whole state may be too large to make one for its types."""
  return np.broadcast_to(np.zeros([], spec.dtype.as_numpy_dtype), spec.shape)


def _digest(path: pathlib.Path) -> str:
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _force_out(path: pathlib.Path) -> None:
  """Makes sure that a file, or a folder's list of names, is on disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)
