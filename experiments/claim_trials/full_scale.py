"""Estimates the cost of the papers' own settings: the time of one client's round × rounds × cohort.

    python -m experiments.claim_trials.full_scale   # writes experiments/results/full_scale.json

For each task, model and amount of local work in the presets, three rounds of two clients are run, one client
at a time, with synthetic data of the real size; the faster of the last two rounds counts.
"""

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import tasks
from experiments.claim_trials.claim import Claim
from experiments.cli import presets as preset_files
from experiments.runs.reader import read_metrics
from experiments.sweeps.forked_runs import ROOT, RUN

MEASURED = ROOT / "experiments" / "results" / "full_scale.json"
LONGEST = 600  # time limit of a measurement in seconds
CLIENTS = 2
WORK = ("num_clients", "client_epochs_per_round", "client_steps_per_round", "client_batch_size")
# Mean images per client (164,172 of 1,262 photographers; 120,300 of 9,275), and images trained on here.
SAMPLED = {"gldv2": (130, 4), "inaturalist": (13, 4)}
HEADER = "| presets | task, model | files | rounds | cohort | s per client | core hours per run |"


def section(claims: Sequence[Claim]) -> str:
  """The section of RESULTS.md for the measured presets of these claims; empty without measurements."""
  if not MEASURED.exists():
    return ""
  measured = json.loads(MEASURED.read_text(encoding="utf-8"))
  rows = []
  for folder in dict.fromkeys(claim.presets for claim in claims if claim.presets):
    for _, given, count in _kinds(folder):
      found = measured.get(_work(given))
      if found is None:
        continue
      rounds = int(given.get("total_rounds", found["total_rounds"]))
      cohort = int(given.get("clients_per_round", found["clients_per_round"]))
      if found["seconds"] is None:
        took, hours = found["why"], "–"
      else:
        took = f"{found['seconds']:.2f}"
        needed = found["seconds"] * rounds * cohort / 3600
        hours = f"{needed:,.0f}" if needed >= 10 else f"{needed:.2g}"
      what = f"`{folder}` | {_label(given)} | {count} | {rounds:,} | {cohort}"
      rows.append(f"| {what} | {took} | {hours} |")
  return "\n\n".join(
    [
      "## Cost of the full-scale experiments",
      "The papers' own settings are presets: `python experiments/sweep.py --preset=FOLDER`. The table gives "
      "the CPU time of one client's round of FedAvg, in seconds on one core, with synthetic data of the real "
      "size (measured by `python -m experiments.claim_trials.full_scale`), and the core hours of a run: that "
      "time × rounds × cohort. Two cores halve the hours; other algorithms need up to three times as many; "
      "every seed and every grid point is another run. Clients of GLDv2 and iNaturalist were trained on 4 "
      "images, and the time was scaled up to the 130 and 13 images that they have on average.",
      "\n".join([HEADER, "|---" * HEADER.count(" |") + "|", *rows]) + "\n",
    ]
  )


def main(folder: pathlib.Path) -> None:
  """Measures every task, model and amount of local work in the claims' presets."""
  from experiments.claim_trials.registry import CLAIMS

  measured = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
  for presets in dict.fromkeys(claim.presets for claim in CLAIMS.values() if claim.presets):
    for name, given, _ in _kinds(presets):
      work = _work(given)
      if work not in measured:
        measured[work] = _measure(name, given, folder)
        print(work, measured[work], flush=True)
        MEASURED.parent.mkdir(exist_ok=True)
        MEASURED.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def _kinds(folder: str) -> Iterator[tuple[str, dict[str, str], int]]:
  """Groups a folder's presets by their work; yields the first (FedAvg if present), its flags, the count."""
  groups: dict[str, list[tuple[str, dict[str, str]]]] = {}
  for name in preset_files.names(folder):
    given = preset_files.by_name(preset_files.read(name))
    groups.setdefault(_work(given), []).append((name, given))
  for found in groups.values():
    found.sort(key=lambda pair: pair[1]["algo"] != "fedavg")
    yield (*found[0], len(found))


def _label(given: dict[str, str]) -> str:
  return given["task"] + (f", {given['model']}" if "model" in given else "")


def _work(given: dict[str, str]) -> str:
  """The flags that determine the time of a client's round, as text."""
  return ", ".join([_label(given), *(f"{name}={given[name]}" for name in WORK if name in given)])


def _measure(name: str, given: dict[str, str], folder: pathlib.Path) -> dict[str, Any]:
  run = folder / name.replace("/", ".")
  made = tasks.info(given["task"]).synthetic_options
  data = [f"--{option}={value}" for option, value in made.items()]
  images, sample = SAMPLED.get(given["task"], (1, 1))
  if sample < images:
    data.append(f"--max_examples_per_client={sample}")
  command = [sys.executable, str(RUN), f"--preset={name}", *data, "--total_rounds=3",
             f"--clients_per_round={CLIENTS}", "--max_clients_in_flight=1", "--rounds_per_eval=100",
             "--eval_examples=10", "--lean",
             "--quiet", f"--root_output_dir={folder}", f"--experiment_name={run.name}"]  # fmt: skip
  why = ""
  try:
    subprocess.run(command, timeout=LONGEST, check=True, capture_output=True, cwd=ROOT)
  except subprocess.TimeoutExpired:
    why = f"more than {LONGEST} s for three rounds of two clients"
  except subprocess.CalledProcessError as error:
    said = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
    why = f"did not run here: {' '.join(said)[:120]} ({error.returncode})"
  took = []
  if (run / "metrics.csv").exists():
    took = read_metrics(run / "metrics.csv", running=True)["seconds/train"][1:].tolist()
  seconds = min(took) / CLIENTS * images / sample if took else None
  return {"seconds": seconds, "why": why, **_defaults(given["task"])}


def _defaults(task: str) -> dict[str, int]:
  """The task's own rounds and cohort, for presets that do not set them."""
  defaults = tasks.load(task, seed=0, **tasks.info(task).synthetic_options).defaults
  return {name: getattr(defaults, name) for name in ("total_rounds", "clients_per_round")}


if __name__ == "__main__":
  main(pathlib.Path("runs/full_scale"))
