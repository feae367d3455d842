"""Starts presets as `run.py --preset=NAME --scale=0.01 --data=synthetic --total_rounds=1` would.

    python tests/helpers/preset_starts.py FOLDER [PRESET or folder of presets ...]

Without names, starts all presets. Several presets of one task are started in one process, because importing
TensorFlow and building a deep model take longer than most runs. Presets that differ only in their rounds are
started once. Presets that were started before are skipped. Each start adds a row to FOLDER/starts.csv; a
failure does not stop the others.
"""

import csv
import functools
import gc
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import flags

import tasks
from experiments.cli import flags as cli_flags
from experiments.cli import presets, run_request

# Tasks in order of increasing cost.
COST = ("quadratic", "concrete", "sent140", "fashion_mnist", "emnist_sorted", "cifar10_two_class",
        "shakespeare", "cifar10_dirichlet", "cifar100_dirichlet", "emnist", "cifar100", "stackoverflow",
        "inaturalist", "gldv2")  # fmt: skip
SCALE = "0.01"
TOGETHER = 12  # starts per process; TensorFlow releases little memory
# ViT-B/16 takes two core seconds per image and gradient, and a landmark photographer has 130 images and five
# epochs, so these presets are started with few images.
FEW = ["--max_examples_per_client=2", "--eval_examples=10"]
TOO_SLOW = {
  ("gldv2", "mobilenet_v2"): FEW,
  ("gldv2", "vit_b16"): FEW,
  ("inaturalist", "vit_b16"): FEW,
}
HEAVY = ("checkpoints", "client_states", "model_best", "model_last")  # deleted after a start


def kind(name: str) -> tuple[int, str, str]:
  """The cost, task and model of a preset; presets of one kind share a process."""
  found = presets.by_name(presets.read(name))
  return COST.index(found["task"]), found["task"], found.get("model", "")


@functools.cache
def words(name: str) -> frozenset[str]:
  """The flags of a preset that matter for a start; equal for presets that start alike."""
  flags_then = presets.scaled(presets.read(name), SCALE)
  return frozenset(flag for flag in flags_then if not flag.startswith("--total_rounds="))


def arguments(name: str, folder: str, lean: bool) -> list[str]:
  """The command line of a start."""
  _, task, model = kind(name)
  data = [f"--{name}={value}" for name, value in tasks.info(task).synthetic_options.items()]
  return ["run.py", f"--preset={name}", f"--scale={SCALE}", "--total_rounds=1", *data,
          *TOO_SLOW.get((task, model), []), f"--root_output_dir={folder}",
          f"--experiment_name={run_name(name)}", "--quiet", *["--lean"] * lean]  # fmt: skip


def run_name(name: str) -> str:
  """The name of the folder of a preset's run."""
  return name.replace("/", ".")


def start(folder: str, names: list[str]) -> None:
  """Starts presets in this process; prints a line and records a row for each success."""
  cli_flags.define_flags()
  from experiments.training import experiment

  tasks.loader = shared(tasks.loader)  # type: ignore[assignment]
  for name in names:
    started = time.monotonic()
    for flag in flags.FLAGS:
      flags.FLAGS[flag].unparse()
    # The exported model is the task's, so one export per process is enough.
    lean = name != names[0] or kind(name)[1:] in TOO_SLOW
    cli_flags.parse(presets.expand(arguments(name, folder, lean)))
    assert experiment.run(run_request.from_flags(flags.FLAGS)) == 0
    for part in HEAVY:
      shutil.rmtree(pathlib.Path(folder, run_name(name), part), ignore_errors=True)
    gc.collect()
    seconds, peak = time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"started {name} in {seconds:.1f} s", flush=True)
    record(folder, name, "started", f"{seconds:.1f}", f"{peak // 1024}")


def shared(loader):
  """A loader that returns the same task for the same options; tasks do not depend on the algorithm."""
  made = {}

  def shared_loader(name):
    load = loader(name)

    @functools.wraps(load)
    def load_once(**options):
      key = (name, *sorted(options.items()))
      if key not in made:
        made.clear()
        made[key] = load(**options)
      return made[key]

    return load_once

  return shared_loader


def record(folder: str, name: str, outcome: str, seconds: str, peak: str) -> None:
  """Adds a row to the table."""
  with open(pathlib.Path(folder, "starts.csv"), "a", newline="") as file:
    csv.writer(file).writerow([name, outcome, seconds, peak])


def main(folder: str, prefixes: list[str]) -> int:
  """Starts the presets that were not started yet; returns 1 if one failed."""
  os.makedirs(folder, exist_ok=True)
  asked = {name for prefix in prefixes or [""] for name in presets.names(prefix)}
  done_before = {words(n) for n in presets.names() if is_started(folder, n)}
  one_each = {words(name): name for name in sorted(asked, reverse=True)}
  waiting = sorted(
    (name for said, name in one_each.items() if said not in done_before),
    key=lambda name: (kind(name), name),
  )
  failed = []
  while waiting:
    together = 1 if kind(waiting[0])[1:] in TOO_SLOW else TOGETHER
    names = [name for name in waiting if kind(name) == kind(waiting[0])][:together]
    child = subprocess.run(
      [sys.executable, __file__, "--here", folder, *names], stderr=subprocess.PIPE, text=True
    )
    left = [name for name in names if not is_started(folder, name)]
    if left:
      reason = (child.stderr.strip().splitlines() or ["-"])[-1]
      print(f"failed {left[0]}: exit code {child.returncode}: {reason}", flush=True)
      record(folder, left[0], f"failed: {child.returncode}: {reason}", "", "")
      failed.append(left[0])
      print(child.stderr, file=sys.stderr)
    done = {*names} - {*left[1:]}
    waiting = [name for name in waiting if name not in done]
  left_out = {words(name) for name in failed}
  well = sum(words(name) not in left_out for name in asked)
  print(f"{well} of {len(asked)} presets have started.")
  return 1 if failed else 0


def is_started(folder: str, name: str) -> bool:
  """Whether a preset's run has finished."""
  return pathlib.Path(folder, run_name(name), "summary.json").exists()


if __name__ == "__main__":
  if sys.argv[1] == "--here":
    start(sys.argv[2], sys.argv[3:])
  else:
    sys.exit(main(sys.argv[1], sys.argv[2:]))
