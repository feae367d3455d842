"""What the GPU audit looks at: algorithms on a small model, the models of the tasks, the benchmark's items.

`python -m experiments.checks.gpu_subjects NAME ...` prints one line of JSON for each subject. It is a program
of its own, because a process can make its second logical CPU device only before TensorFlow starts.

    python -m experiments.checks.gpu_subjects --all --output=audit.jsonl

audits all algorithms on all models. The same command continues after an interruption.
"""

import argparse
import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tff_momentum.registry import ALGORITHMS

if TYPE_CHECKING:
  from tasks.task import Task

SMALL_TASK = "digits"
# The models of all tasks, each once: task, model, and whether it takes long.
MODELS: tuple[tuple[str, str | None, bool], ...] = (
  ("digits", None, False),
  ("quadratic", None, False),
  ("diabetes", None, False),
  ("emnist", "cnn", False),
  ("emnist", "cnn_dropout", False),
  ("emnist", "cnn_fedgbo", False),
  ("emnist", "logistic", False),
  ("emnist", "autoencoder", False),
  ("emnist_digits", "2nn", False),
  ("shakespeare", "lstm", True),
  ("shakespeare", "lstm100", True),
  ("shakespeare", "gru", False),
  ("stackoverflow", None, True),
  ("stackoverflow_tag", None, False),
  ("sent140", None, False),
  ("cifar10_dirichlet", "lenet", False),
  ("cifar10_dirichlet", "resnet20", False),
  ("cifar10_dirichlet", "vgg11", True),
  ("cifar100", "resnet18", True),
  ("gldv2", "mobilenet_v2", True),
  ("gldv2", "vit_b16", True),
)
# Shallow, narrow models of the same kinds of layers, as "task/model/short": the keyword arguments.
# A test shows that their graphs have the same kinds of operations as the whole model's.
SHORT: dict[tuple[str, str], dict[str, Any]] = {
  ("cifar10_dirichlet", "resnet20"): {"filters": (4, 8), "blocks": 1},
  ("cifar10_dirichlet", "vgg11"): {"filters": ((4,), (8, 8))},
  ("cifar100", "resnet18"): {"filters": (4, 8), "blocks": 1},
  ("gldv2", "mobilenet_v2"): {"stages": ((1, 4, 1, 1), (2, 8, 2, 2)), "last": 8},
  ("gldv2", "vit_b16"): {"width": 8, "heads": 2, "blocks": 1},
}
# Models without a hidden layer before the last one, which FedMAX needs: it refuses them.
WITHOUT_PENULTIMATE_LAYER = {
  "quadratic",
  "diabetes",
  "emnist/logistic",
  "emnist/autoencoder",
  "stackoverflow_tag",
  "sent140",
}


@dataclasses.dataclass(frozen=True)
class Subject:
  """Something to audit: an algorithm on a task's model, or an item of the benchmark.

  A name is "algorithm", "algorithm@task", "algorithm@task/model", "algorithm@task/model/short", "item:A",
  "item:A/off" for the item without compiled code, or "item:A/on" for the item with a compiled gradient.

  Attributes:
    name: The name.
    with_examples: Whether the client of an algorithm trains. Its graphs are the same if it has no examples.
  """

  name: str
  with_examples: bool = False

  def prepare(self) -> Callable[[], object]:
    """Builds everything; returns the function that runs a round with one client."""
    if self.name.startswith("item:"):
      return _item(self.name.removeprefix("item:"))
    algorithm, _, place = self.name.partition("@")
    return _round(algorithm, place or SMALL_TASK, self.with_examples)


def names(*, slow: bool = False) -> list[str]:
  """Returns all algorithms on a small model and fedavg on the quick models; `slow`: all on all models.

  All algorithms run on the short forms of deep models; fedavg runs on the whole ones, too.
  """
  if not slow:
    quick = [_place(task, model) for task, model, is_slow in MODELS if not is_slow]
    return [*ALGORITHMS, *(f"fedavg@{place}" for place in quick)]
  found = []
  for task, model, _ in MODELS:
    place = _place(task, model)
    if (task, model) in SHORT:
      found.append(f"fedavg@{place}")
      place += "/short"
    refusing = {"fedmax"} if place in WITHOUT_PENULTIMATE_LAYER else set()
    found += [f"{algorithm}@{place}" for algorithm in ALGORITHMS if algorithm not in refusing]
  return found


def _place(task: str, model: str | None) -> str:
  return f"{task}/{model}" if model else task


@functools.lru_cache(maxsize=1)
def _task(place: str) -> "Task":
  import tasks
  from tasks.models import deep, images
  from tasks.models.classification import classifier

  name, *rest = place.split("/")
  info = tasks.info(name)
  options: dict[str, Any] = dict(info.synthetic_options)
  if rest:
    options["model"] = rest[0]
  if rest[1:] and "image_size" in info.options:
    options["image_size"] = 32
  task = tasks.load(name, seed=1, **options)
  if not rest[1:]:
    return task
  image, _ = task.model.batch_spec
  build = functools.partial(getattr(deep, rest[0]), image.shape[1:], 10, **SHORT[name, rest[0]])
  return dataclasses.replace(task, model=classifier(build, image, 1, images.PENULTIMATE))


def _round(algorithm: str, place: str, with_examples: bool) -> Callable[[], object]:
  import numpy as np

  from experiments.training import build
  from tff_momentum import registry
  from tff_momentum.client import LocalWork
  from tff_momentum.processes.client_input import ClientInput
  from tff_momentum.processes.process import build_process

  task = _task(place)
  staleness = 10 if "max_staleness" in registry.info(algorithm).hyperparameters else None
  built = build.build_algorithm(algorithm, {}, task, 1, staleness)
  process = build_process(built, task.model, work=LocalWork(steps=2))
  seed = np.array([1, 2], np.int32)
  data = task.dataset(task.clients[0], seed, 2)
  client = ClientInput(
    seed=seed,
    state=process.initial_client_state(seed),
    data=data if with_examples else _emptied(data),
    steps=np.int32(2) if process.takes_steps else (),
    staleness=np.int32(0) if process.takes_staleness else (),
  )
  return lambda: process.next(process.initialize(), [client])


def _emptied(data: Any) -> Any:
  """Returns the batches of a client without examples, of the same kind."""
  from tff_momentum.runtime import ClientBatches

  if isinstance(data, ClientBatches):
    return ClientBatches(data.examples, batch_size=2, seed=(1, 2), begin=0, end=0)
  return data.take(0)


def _item(name: str) -> Callable[[], object]:
  from experiments.benchmarks import competitors, work_items
  from tff_momentum.runtime import gpu_audit

  name, _, mode = name.partition("/")
  modes: dict[str, Literal["auto", "on", "off"]] = {"": "auto", "on": "on", "off": "off"}
  gpu_audit.set_audited_context(modes[mode])
  item = dataclasses.replace(work_items.ITEMS[name], clients=1, examples=0)
  return competitors.Ours(item, None).round


def audit(subject: Subject) -> dict[str, Any]:
  """Audits one subject; returns the findings as texts, but for those that are allowed."""
  from tff_momentum.runtime import gpu_audit

  found = gpu_audit.audit(subject.prepare())
  return {
    "name": subject.name,
    "without_kernel": found.forbidden(),
    "crossings": [str(f) for f in found.crossings],
    "copies": [str(f) for f in found.copies],
    "launches": found.launches,
    "compiled": found.compiled,
    "functions": found.functions,
    "kinds": sorted(found.kinds),
  }


def audit_all(which: Sequence[str], *, with_examples: bool = False) -> Iterator[dict[str, Any]]:
  """Audits subjects by name, on a runtime whose graphs are those for a GPU."""
  from tff_momentum.runtime import gpu_audit

  for name in which:
    try:
      gpu_audit.set_audited_context()
      yield audit(Subject(name, with_examples))
    except Exception as error:
      yield {
        "name": name,
        "failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
      }


def audit_everything(output: pathlib.Path) -> None:
  """Audits all algorithms on all models, one process per model; appends to `output` what it lacks."""
  done = set()
  if output.exists():
    done = {json.loads(line)["name"] for line in output.read_text(encoding="utf-8").splitlines()}
  by_place: dict[str, list[str]] = {}
  for name in names(slow=True):
    if name not in done:
      by_place.setdefault(name.partition("@")[2], []).append(name)
  for which in by_place.values():
    with output.open("a", encoding="utf-8") as lines:
      command = [sys.executable, "-m", "experiments.checks.gpu_subjects", *which]
      subprocess.run(command, stdout=lines, check=True)


def main(argv: list[str]) -> None:
  """Prints the audits of some subjects; all quick ones by default."""
  parser = argparse.ArgumentParser(prog="gpu_subjects", description=__doc__)
  parser.add_argument("names", nargs="*", help="subjects")
  parser.add_argument("--with_examples", action="store_true", help="the client trains")
  parser.add_argument("--all", action="store_true", help="all algorithms on all models")
  parser.add_argument("--output", type=pathlib.Path, help="where --all appends its lines")
  arguments = parser.parse_args(argv)
  if arguments.all:
    audit_everything(arguments.output or pathlib.Path("audit.jsonl"))
    return
  for found in audit_all(arguments.names or names(), with_examples=arguments.with_examples):
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
  main(sys.argv[1:])
