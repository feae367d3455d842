"""Executes a sweep: starts the incomplete runs rung by rung, until all are done or the user interrupts."""

import dataclasses
import fcntl
import json
import pathlib
import shlex
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import IO

from experiments.cli.errors import UserError
from experiments.cli.interrupts import Interrupts
from experiments.sweeps import halving, outcomes, tables
from experiments.sweeps.forked_runs import RUN
from experiments.sweeps.outcomes import Outcome
from experiments.sweeps.pool import JobResult, Pool, PoolJob
from experiments.sweeps.progress import ProgressTable
from experiments.sweeps.search_space import SweepRun

# Flags that may change when a sweep is continued.
MAY_CHANGE = ("--total_rounds=", "--max_clients_in_flight=")


@dataclasses.dataclass
class Sweep:
  """A sweep and its folder.

  Attributes:
    folder: contains the runs' folders, the logs and the tables.
    runs: all runs of the sweep.
    pool: executes the runs.
    metric: the evaluation metric to rank by; None for the task's default.
    remarks: notes by name for the tables.
    quiet: whether to print no progress.
    shard: (i, n) if other processes run the other shards of the sweep in the same folder: this one then
      writes no tables, and locks its shard alone.
  """

  folder: pathlib.Path
  runs: Sequence[SweepRun]
  pool: Pool
  metric: str | None
  remarks: Mapping[str, object]
  quiet: bool = False
  shard: tuple[int, int] | None = None

  def __post_init__(self) -> None:
    self.outcomes: dict[str, Outcome] = {}
    self._progress = ProgressTable(self.folder.name, self.runs, quiet=self.quiet)
    self._interrupts = Interrupts()

  def run(self, budgets: Sequence[int | None], keep: int) -> bool:
    """Executes all rungs; returns False if the user interrupted the sweep.

    Args:
      budgets: the rounds of each rung; None runs to the end.
      keep: one in `keep` configurations is kept after each rung.
    """
    self._lock = lock(self.folder, self.shard)
    check_unchanged(self.folder, self.runs)
    (self.folder / "logs").mkdir(exist_ok=True)
    self.outcomes = {run.name: self._outcome(run, budgets[-1]) for run in self.runs}
    self._write()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
      signal.signal(number, self._interrupted)
    alive = list(self.runs)
    for rung, rounds in enumerate(budgets):
      if rung:
        alive, leaving = halving.survivors(alive, self.outcomes, keep)
        for run in leaving:
          found = self.outcomes[run.name]
          if found.state == "done":
            self.outcomes[run.name] = dataclasses.replace(found, state="pruned")
      self._run_rung(alive, rounds)
      if self._interrupts.count:
        break
    self._write()
    self._progress.finish(self.outcomes)
    return not self._interrupts.count

  def _run_rung(self, runs: Sequence[SweepRun], rounds: int | None) -> None:
    for run in runs:
      self.outcomes[run.name] = self._outcome(run, rounds)
    waiting = deque(run for run in runs if not self.outcomes[run.name].settled)
    by_name = {run.name: run for run in runs}
    while self.pool.running or (waiting and not self._interrupts.count):
      while waiting and self.pool.free > 0 and not self._interrupts.count:
        run = waiting.popleft()
        self.outcomes[run.name] = dataclasses.replace(self.outcomes[run.name], state="running")
        self.pool.start(self._job(run, rounds))
      for ended in self.pool.ended(timeout=0.5):
        self._record(by_name[ended.name], ended, rounds)
      self._progress.draw(self.outcomes, self.pool.running, len(waiting), self.pool.jobs)

  def _record(self, run: SweepRun, ended: JobResult, rounds: int | None) -> None:
    found = self._outcome(run, rounds)
    if not found.settled and not self._interrupts.count:
      reason = last_words(self.folder / "logs" / f"{run.name}.log", ended.code)
      found = dataclasses.replace(found, state="failed", score=None, reason=reason)
    self.outcomes[run.name] = found
    self._progress.record(run.name, found, ended.seconds)
    self._write()

  def _outcome(self, run: SweepRun, rounds: int | None) -> Outcome:
    return outcomes.outcome(self.folder / run.name, rounds, self.metric)

  def _job(self, run: SweepRun, rounds: int | None) -> PoolJob:
    return PoolJob(
      run.name,
      [sys.executable, str(RUN), *command_flags(run, self.folder, rounds), "--quiet"],
      self.folder / "logs" / f"{run.name}.log",
    )

  def _write(self) -> None:
    if self.shard is None:
      tables.write(self.folder, self.runs, self.outcomes, self.remarks)

  def _interrupted(self, number: int, frame: FrameType | None) -> None:
    if not self._interrupts.add():
      return
    if self._interrupts.count == 1:
      print(
        "\nStopping: runs finish their current round; interrupt again to kill them.",
        file=sys.stderr,
      )
      self.pool.interrupt()
    else:
      self.pool.kill()


def command_flags(run: SweepRun, folder: pathlib.Path, rounds: int | None) -> list[str]:
  """The flags of `run.py` for a run."""
  flags = list(run.flags)
  if rounds is not None:
    flags = [flag for flag in flags if not flag.startswith("--total_rounds=")]
    flags.append(f"--total_rounds={rounds}")
  return [*flags, f"--root_output_dir={folder}", f"--experiment_name={run.name}"]


def commands(runs: Sequence[SweepRun], folder: pathlib.Path) -> str:
  """The commands of all runs, one per line."""
  return "\n".join(
    shlex.join(["python", "experiments/run.py", *command_flags(run, folder, None)]) for run in runs
  )


def lock(folder: pathlib.Path, shard: tuple[int, int] | None = None) -> IO[str]:
  """Locks the folder, or a shard of it, against a second sweep for as long as this process lives.

  The runs lock their own folders, so a sweep and a shard in the same folder cannot damage each other.
  """
  name = ".lock" if shard is None else f".lock_{shard[0]}_of_{shard[1]}"
  try:
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / name, "w")  # noqa: SIM115 - stays open until the process ends
  except OSError as error:
    raise UserError(f"{folder} must be a writable folder; {error.strerror}.") from None
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except OSError:
    raise UserError(
      f"another sweep is running in {folder}; wait for it, or choose another --sweep_name."
    ) from None
  return file


def check_unchanged(folder: pathlib.Path, runs: Sequence[SweepRun]) -> None:
  """Raises `UserError` if the folder has a run of the same name with different flags."""
  try:
    known = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["cells"]
  except (OSError, ValueError, KeyError):
    return
  before = {run["name"]: set(run["flags"]) for run in known}
  for run in runs:
    differing = before.get(run.name, set(run.flags)) ^ set(run.flags)
    differing = {flag for flag in differing if not flag.startswith(MAY_CHANGE)}
    if differing:
      raise UserError(
        f"{folder} contains a sweep with different flags, {', '.join(sorted(differing))}; "
        "choose another --sweep_name."
      )


def last_words(log: pathlib.Path, code: int) -> str:
  """Why a run ended: its error message, else the last line of its log, and the exit code or signal."""
  text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
  text = text.partition("Exception ignored in")[0]  # printed by libraries while Python shuts down
  said = [line.strip() for line in text.splitlines() if line.strip()]
  how = f"signal {-code}" if code < 0 else f"exit code {code}"
  sentences = [line for line in said if line.startswith(f"{RUN.name}: ")]
  return f"{(sentences or said)[-1]} ({how})" if said else how
