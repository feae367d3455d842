"""What the GPU audit looks at: algorithms on a small model, the models of the tasks, the benchmark's items.

`python -m experiments.checks.gpu_subjects NAME ...` prints one line of JSON for each subject. It is a program
of its own, because a process can make its second logical CPU device only before TensorFlow starts.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tff_momentum.registry import ALGORITHMS

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


@dataclasses.dataclass(frozen=True)
class Subject:
  """Something to audit: an algorithm on a task's model, or an item of the benchmark.

  A name is "algorithm", "algorithm@task", "algorithm@task/model", "item:A", or "item:A/off" for the item
  without compiled code.
  """

  name: str

  def prepare(self) -> Callable[[], object]:
    """Builds everything; returns the function that runs a round with one client."""
    if self.name.startswith("item:"):
      return _item(self.name.removeprefix("item:"))
    algorithm, _, place = self.name.partition("@")
    task, _, model = (place or SMALL_TASK).partition("/")
    return _round(algorithm, task, model or None)


def names(*, slow: bool = False) -> list[str]:
  """Returns all algorithms on a small model and fedavg on the quick models; `slow`: all on all models."""
  places = [
    f"{task}/{model}" if model else task for task, model, is_slow in MODELS if slow or not is_slow
  ]
  if slow:
    return [f"{algorithm}@{place}" for place in places for algorithm in ALGORITHMS]
  return [*ALGORITHMS, *(f"fedavg@{place}" for place in places)]


def _round(algorithm: str, task_name: str, model: str | None) -> Callable[[], object]:
  import tasks
  from experiments.training import build
  from tff_momentum import registry
  from tff_momentum.client import LocalWork
  from tff_momentum.processes.process import build_process
  from tff_momentum.simulation import loop

  info = tasks.info(task_name)
  options: dict[str, Any] = {**info.synthetic_options, **({"model": model} if model else {})}
  task = tasks.load(task_name, seed=1, **options)
  staleness = 10 if "max_staleness" in registry.info(algorithm).hyperparameters else None
  built = build.build_algorithm(algorithm, {}, task, 1, staleness)
  process = build_process(built, task.model, work=LocalWork(steps=2))
  return lambda: loop.run(
    process,
    task,
    total_rounds=1,
    clients_per_round=1,
    client_batch_size=2,
    seed=1,
    rounds_per_eval=0,
  )


def _item(name: str) -> Callable[[], object]:
  from experiments.benchmarks import competitors, work_items
  from tff_momentum.runtime import gpu_audit

  name, _, mode = name.partition("/")
  gpu_audit.set_audited_context("off" if mode == "off" else "auto")
  item = dataclasses.replace(work_items.ITEMS[name], clients=1)
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
  }


def audit_all(which: list[str]) -> Iterator[dict[str, Any]]:
  """Audits subjects by name, on a runtime whose graphs are those for a GPU."""
  from tff_momentum.runtime import gpu_audit

  for name in which:
    try:
      gpu_audit.set_audited_context()
      yield audit(Subject(name))
    except Exception as error:
      yield {
        "name": name,
        "failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
      }


def main(which: list[str]) -> None:
  """Prints the audits of some subjects; all quick ones by default."""
  for found in audit_all(which or names()):
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
  main(sys.argv[1:])
