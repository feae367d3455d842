"""The doctor: a crash, a hang and a wrong version are failures with a fix, and exit with code 1."""

import argparse
import os
import signal
import subprocess
import sys
import time

import pytest

from experiments import doctor
from experiments.checks import gpus, machine
from experiments.checks.machine import CheckResult
from experiments.doctor import Check
from tests import ROOT
from tff_momentum.runtime.gpu_decisions import GIGABYTE, Gpu, Machine

NOTHING = argparse.Namespace(data_dir=None, ray=None)


def with_data(folder):
  return argparse.Namespace(data_dir=str(folder), ray=None)


def test_versions_differing_from_the_pins_are_named(tmp_path, monkeypatch):
  (tmp_path / "pyproject.toml").write_text(
    '[project]\ndependencies = ["numpy==0.1", "absent==2.0"]\n'
  )
  (tmp_path / "requirements.lock").write_text("numpy==0.1\nabsent==2.0\nabsent-extra==1.0\n")
  monkeypatch.setattr(machine, "ROOT", tmp_path)
  line = machine.packages(NOTHING)
  assert not line.ok
  assert "numpy 1." in line.found
  assert "absent none (expected: 2.0)" in line.found
  assert "absent-extra" not in line.found
  assert "requirements.lock" in line.fix


def test_the_installed_packages_and_python_are_those_pinned():
  # In a new process, because `import ray` puts the packages that Ray bundles first on sys.path.
  command = [sys.executable, "experiments/doctor.py", "--only=python", "--only=packages"]
  result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
  assert result.returncode == 0, result.stdout + result.stderr


def test_a_check_that_crashes_is_a_red_line():
  def crash(arguments):
    raise KeyError("no such thing")

  line = doctor.perform(Check("crash", crash), NOTHING)
  assert line == CheckResult(False, "KeyError: 'no such thing'", machine.INSTALL)


@pytest.fixture
def in_child(monkeypatch, tmp_path):
  """Runs code as the process of a check with a time limit."""

  def perform(code, seconds=30.0):
    script = tmp_path / "script.py"
    script.write_text(code)
    monkeypatch.setattr(doctor, "__file__", str(script))
    return doctor.perform_apart(Check("devices", machine.devices, seconds), [])

  return perform


def test_a_process_ended_by_a_signal_is_a_red_line(in_child):
  line = in_child("import os; print('last words', flush=True); os.kill(os.getpid(), 11)")
  assert not line.ok
  assert line.found == f"ended by signal {signal.SIGSEGV.value}: last words"


def test_a_process_that_hangs_is_a_red_line_in_time(in_child):
  started = time.monotonic()
  line = in_child("import time; time.sleep(60)", seconds=1)
  assert line.found == "no answer within 1 s"
  assert time.monotonic() - started < 20


def test_what_a_check_leaves_behind_does_not_hold_up_the_doctor(in_child):
  started = time.monotonic()
  line = in_child("import subprocess, sys; subprocess.Popen(['sleep', '20']); sys.exit(3)")
  assert line.found == "ended with code 3: no output"
  assert time.monotonic() - started < 15


def test_data_that_is_no_data_base_is_named(tmp_path):
  (tmp_path / "tff").mkdir()
  (tmp_path / "tff" / "good.sqlite").write_bytes(b"SQLite format 3\0" + bytes(84))
  (tmp_path / "tff" / "next.sqlite.download").write_bytes(b"half")
  line = machine.data(with_data(tmp_path))
  assert line.ok
  assert "good.sqlite" in line.found
  assert "1 incomplete" in line.found
  (tmp_path / "tff" / "bad.sqlite").write_text("<html>not found</html>")
  line = machine.data(with_data(tmp_path))
  assert not line.ok
  assert "tff/bad.sqlite" in line.found


def test_a_data_folder_that_was_named_must_exist(tmp_path):
  assert not machine.data(with_data(tmp_path / "nowhere")).ok


def test_room_is_measured_and_too_little_is_red(tmp_path, monkeypatch):
  assert "GB free here" in machine.disk(with_data(tmp_path / "not yet")).found
  monkeypatch.setattr(machine, "LEAST_DISK", 10**18)
  monkeypatch.setattr(machine, "LEAST_MEMORY", 10**18)
  assert not machine.disk(with_data(tmp_path)).ok
  assert not machine.memory(NOTHING).ok


def test_ray_is_only_missed_when_asked_for(monkeypatch):
  def version(name):
    raise machine.importlib.metadata.PackageNotFoundError(name)

  monkeypatch.setattr(machine.importlib.metadata, "version", version)
  assert machine.ray(NOTHING).ok
  line = machine.ray(argparse.Namespace(ray="1.2.3.4:6379"))
  assert not line.ok
  assert "cluster" in line.fix


def test_a_machine_without_a_gpu_gets_one_line_with_what_was_checked_anyway():
  line = gpus.report(Machine())
  assert line.ok
  assert line.found.startswith(
    "none (no NVIDIA driver); checked anyway: the extra gpu is not installed"
  )
  assert "XLA finds no libdevice and no ptxas" in line.found


def test_a_card_that_cannot_be_used_is_a_red_line():
  blackwell = Gpu("NVIDIA B200", 180 * GIGABYTE, (10, 0))
  line = gpus.report(Machine(gpus=(blackwell,), driver=(570, 86, 10)))
  assert not line.ok
  assert line.found == "None can be used."
  assert "ends at 9.0" in line.fix


def test_a_red_line_shows_its_fix_and_makes_the_exit_code_1(monkeypatch, capsys):
  lines = {
    "fine": CheckResult(True, "all is well", "unneeded"),
    "poor": CheckResult(False, "it is not", "do this"),
  }
  checks = tuple(Check(name, lambda _, line=line: line) for name, line in lines.items())
  monkeypatch.setattr(doctor, "CHECKS", checks)
  assert doctor.main([]) == 1
  printed = capsys.readouterr().out
  assert "ok  fine" in printed
  assert "BAD poor" in printed
  assert "fix: do this" in printed
  assert "unneeded" not in printed
  monkeypatch.setattr(doctor, "CHECKS", checks[:1])
  assert doctor.main([]) == 0


def test_an_unknown_check_is_refused():
  with pytest.raises(SystemExit) as refused:
    doctor.main(["--only=nonsense"])
  assert refused.value.code == 2


@pytest.mark.slow
def test_everything_is_green_here(tmp_path):
  # Into a file: TFF's worker may keep a pipe open.
  with open(tmp_path / "out", "w+") as output:
    code = subprocess.run(
      [sys.executable, "experiments/doctor.py"],
      cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, timeout=600, env={**os.environ, "NO_COLOR": "1"},
    ).returncode  # fmt: skip
    output.seek(0)
    printed = output.read()
  assert code == 0, printed
  assert printed.count("\nok ") + printed.startswith("ok ") == len(doctor.CHECKS)


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_a_red_line(tmp_path):
  pytest.importorskip("ray")
  with open(tmp_path / "out", "w+") as output:
    code = subprocess.run(
      [sys.executable, "experiments/doctor.py", "--only=ray", "--ray=127.0.0.1:1"],
      cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, timeout=300,
    ).returncode  # fmt: skip
    output.seek(0)
    printed = output.read()
  assert code == 1
  assert "BAD ray" in printed
  assert "Traceback" not in printed
