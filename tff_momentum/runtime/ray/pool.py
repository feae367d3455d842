"""The actors of a run: started on all nodes, replaced when they are lost, and added where there is room."""

import os
import pathlib
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ray
from absl import logging
from ray._private import state as ray_state

from tff_momentum.runtime import gpu_settings
from tff_momentum.runtime.gpu_decisions import DeviceKind
from tff_momentum.runtime.ray import actor as ray_actor

# How often a run looks for room for another actor. A look takes less than a millisecond.
_LOOK_SECONDS = 5.0
# How long to wait before the next look after an actor failed to start.
_PAUSE_SECONDS = 60.0
# How long Ray may take to notice that the resources of a lost actor are free again.
_RELEASE_SECONDS = 15.0


class ActorPool:
  """Actors that are ready to run clients, and those that are still starting.

  A run never waits for an actor that is starting, unless it has no other.

  Attributes:
    ready: The actors that run clients, with a description of where each of them runs.
    starting: The first answers of actors that are starting. Wait for these references together with results,
      and call `refresh` when one of them is there.
    device_kind: The kind of device for which the head makes the clients' graphs.
    can_compile: Whether XLA can compile for all actors' devices.
  """

  def __init__(
    self,
    num_actors: int | None,
    gpus_per_actor: float | None,
    startup_seconds: float,
    on_started: Callable[[], None] = lambda: None,
    as_gpu: bool = False,
  ) -> None:
    """Starts actors and waits for all of them.

    Args:
      num_actors: Default: one per GPU, or per share of a GPU that `gpus_per_actor` sets, or else one per CPU;
        then nodes that join later get actors, too.
      gpus_per_actor: Default: 1 if the cluster has GPUs, else 0.
      startup_seconds: How long to wait for all of them to answer.
      on_started: Called whenever new processes have started.
      as_gpu: Lets the actors' CPUs take the place of GPUs, for tests.

    Raises:
      ValueError: The cluster has no room for so many actors.
      TimeoutError: Some actors do not answer in time.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = sum(node.get("GPU", 0) for node in nodes)
    self._gpus_each = (1 if gpus else 0) if gpus_per_actor is None else gpus_per_actor
    room = self._room(nodes)
    count = room if num_actors is None else num_actors
    if not 1 <= count <= room:
      cpus = sum(node.get("CPU", 0) for node in nodes)
      raise ValueError(
        f"Expected between 1 and {room} actors on a cluster of {cpus:g} CPUs and {gpus:g} GPUs (one CPU "
        f"and {self._gpus_each:g} GPUs per actor); found {count}."
      )
    self.ready: dict[Any, str] = {}
    self.starting: dict[ray.ObjectRef, Any] = {}
    self.lost = 0
    self._wanted = num_actors
    self._startup_seconds = startup_seconds
    self._on_started = on_started
    self._as_gpu = as_gpu
    self.device_kind: DeviceKind = "CPU"
    self.can_compile = True
    self._handles: list[Any] = []
    self._end = weakref.finalize(self, _kill, self._handles)
    self._start(count)
    self._wait_for_all()
    self._next_look = time.monotonic() + _LOOK_SECONDS

  @property
  def seconds_to_look(self) -> float | None:
    """How long a run may wait for results before it calls `refresh` again; None is any time."""
    if self._wanted is not None and len(self._handles) >= self._wanted:
      return None
    return max(0.0, self._next_look - time.monotonic())

  def refresh(self) -> None:
    """Takes in actors that have started and, every few seconds, starts new ones where there is room."""
    if self.starting:
      answered, _ = ray.wait(list(self.starting), num_returns=len(self.starting), timeout=0)
      for answer in answered:
        self._take_in(answer)
      if self.starting and time.monotonic() > self._deadline:
        self._give_up_starting()
    if self.seconds_to_look == 0.0:
      self._next_look = time.monotonic() + _LOOK_SECONDS
      if not self.starting:  # those are not yet subtracted from the available resources
        missing = float("inf") if self._wanted is None else self._wanted - len(self._handles)
        free = ray_state.available_resources_per_node().values()
        self._start(int(min(missing, self._room(free))))

  def lose(self, actor: Any) -> str:
    """Gives up an actor that was lost; returns where it ran. `refresh` replaces it."""
    place = self.ready.pop(actor)
    self._handles.remove(actor)
    self.lost += 1
    self._next_look = min(self._next_look, time.monotonic())
    ray.kill(actor)
    return place

  def wait_for_one(self) -> bool:
    """Waits until at least one actor is ready; returns whether there is one.

    There is none if the cluster has no room for another actor, or if none starts in time.
    """
    no_room = time.monotonic() + _RELEASE_SECONDS
    while not self.ready:
      self._next_look = min(self._next_look, time.monotonic())
      self.refresh()
      if not self.ready and not self.starting and time.monotonic() > no_room:
        return False
      if self.starting:
        ray.wait(list(self.starting), num_returns=1, timeout=1.0)
      else:
        time.sleep(0.2)
    return True

  def close(self) -> None:
    """Ends all actors; the end of this process does the same."""
    self._end()

  def _room(self, nodes: Iterable[Mapping[str, float]]) -> int:
    """Returns how many actors fit into nodes with these resources."""
    room = 0
    for node in nodes:
      cpus, gpus = int(node.get("CPU", 0)), node.get("GPU", 0)
      room += min(cpus, int(gpus / self._gpus_each)) if self._gpus_each else cpus
    return room

  def _start(self, count: int) -> None:
    if count < 1:
      return
    actor_class: Any = ray.remote(ray_actor.ClientActor)
    start = actor_class.options(
      num_cpus=1,
      num_gpus=self._gpus_each,
      scheduling_strategy="SPREAD",
      runtime_env={
        "env_vars": {"PYTHONPATH": _python_path(), **gpu_settings.environment_of_actors()}
      },
    )
    self._deadline = time.monotonic() + self._startup_seconds
    for _ in range(count):
      actor = start.remote(self._as_gpu)
      self._handles.append(actor)
      self.starting[actor.describe.remote()] = actor

  def _wait_for_all(self) -> None:
    answers = list(self.starting)
    ready, late = ray.wait(answers, num_returns=len(answers), timeout=self._startup_seconds)
    if late:
      self.close()
      raise TimeoutError(
        f"Expected {len(answers)} Ray actors to answer within {self._startup_seconds:g} s, found "
        f"{len(ready)}; raise worker_startup_seconds, or lower num_actors."
      )
    places: list[ray_actor.Place] = []
    for answer in ready:
      actor = self.starting.pop(answer)
      places.append(ray.get(answer))
      self.ready[actor] = places[-1].text
      logging.info("Clients run in %s.", self.ready[actor])
    self._decide(places)
    self._on_started()

  def _decide(self, places: Sequence[ray_actor.Place]) -> None:
    """Decides for which kind of device the clients' graphs are made; CPUs can run only those for CPUs."""
    without = [place.text for place in places if place.kind == "CPU"]
    self.device_kind = "CPU" if without else "GPU"
    self.can_compile = all(place.can_compile for place in places)
    if without and self._gpus_each:
      logging.warning(
        "Expected TensorFlow to see a GPU in all Ray actors, found none in %d of %d, such as %s; all clients "
        "run graphs made for CPUs. Run `python experiments/doctor.py` there.",
        len(without), len(places), without[0],
      )  # fmt: skip

  def _take_in(self, answer: ray.ObjectRef) -> None:
    actor = self.starting.pop(answer)
    try:
      place = ray.get(answer)
      if place.kind != self.device_kind == "GPU":
        ray.kill(actor)
        raise ray.exceptions.RayError(f"TensorFlow sees no GPU in {place.text}")
      self.ready[actor] = place.text
    except ray.exceptions.RayError as error:
      self._handles.remove(actor)
      self._next_look = time.monotonic() + _PAUSE_SECONDS
      logging.warning(
        "A new Ray actor did not start (%s); the run goes on with %d actors and tries again in %d s.",
        _reason(error), len(self.ready), _PAUSE_SECONDS,
      )  # fmt: skip
    else:
      logging.warning("A new Ray actor runs clients in %s.", self.ready[actor])
      self._on_started()

  def _give_up_starting(self) -> None:
    logging.warning(
      "%d new Ray actors did not answer within %g s; the run goes on with %d actors and tries again in %d s.",
      len(self.starting), self._startup_seconds, len(self.ready), _PAUSE_SECONDS,
    )  # fmt: skip
    for actor in self.starting.values():
      ray.kill(actor)
      self._handles.remove(actor)
    self.starting.clear()
    self._next_look = time.monotonic() + _PAUSE_SECONDS


def _reason(error: ray.exceptions.RayError) -> str:
  """Returns our own words, or the name of one of Ray's errors, whose words are many lines."""
  name = type(error).__name__
  return str(error) if name == "RayError" else name


def _kill(actors: list[Any]) -> None:
  if ray.is_initialized():
    for actor in actors:
      ray.kill(actor)


def _python_path() -> str:
  """Returns the search path by which actors find this package and its neighbours."""
  root = str(pathlib.Path(__file__).resolve().parents[3])
  return os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
