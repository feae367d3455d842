"""A run with client states on disk that a test can kill. It is light, because each kill starts it again.

The "server" is one number that depends on every state ever seen, so a lost or repeated round shows in it.
"""

import json
import pathlib
import random
import shutil

import numpy as np

from tff_momentum.simulation.client_store import LmdbStore

CLIENTS, COHORT, PERIOD = 12, 4, 7


def new_client(client: str) -> np.ndarray:
  """The state of a client that has not taken part yet."""
  return np.full(300, float(int(client)))


def run(folder: str, last: int) -> None:
  """Runs until round `last` from the newest checkpoint; writes one every PERIOD rounds and at the end."""
  folder = pathlib.Path(folder)
  store = LmdbStore(folder / "store", new_client, map_bytes=2**16)
  checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda p: int(p.name.split("-")[1]))
  first, server = 0, 1.0
  if checkpoints:
    server, first = json.loads((checkpoints[-1] / "server").read_text())
    store.restore(checkpoints[-1] / "states")
  else:
    store.clear()
  for t in range(first, last):
    ids = [str(i) for i in random.Random(t).sample(range(CLIENTS), COHORT)]
    states = [0.5 * state + server for state in store.load(ids)]
    server = 0.9 * server + float(np.mean(states)) / 10
    store.save(ids, states, t)
    if (t + 1) % PERIOD == 0 or t + 1 == last:
      half = folder / "half-written"
      shutil.rmtree(half, ignore_errors=True)
      half.mkdir()
      store.snapshot(half / "states")
      (half / "server").write_text(json.dumps([server, t + 1]))
      safe = half.rename(folder / f"checkpoint-{t + 1}")
      store.release(safe / "states")
      for old in folder.glob("checkpoint-*"):
        if old != safe:
          shutil.rmtree(
            folder / "outdated", ignore_errors=True
          )  # a kill may have left a part of it
          old.rename(folder / "outdated")
          shutil.rmtree(folder / "outdated")
  store.close()


def newest(folder: pathlib.Path) -> int:
  """The round of the newest checkpoint; 0 without one."""
  return max([int(p.name.split("-")[1]) for p in folder.glob("checkpoint-*")], default=0)
