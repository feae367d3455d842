"""The description of an algorithm: from the package alone, and on the model of a task."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests import ROOT
from tff_momentum import describe
from tff_momentum.registry import ALGORITHMS


def run(*arguments, cwd=ROOT, **environment):
  clean = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
  return subprocess.run(
    [sys.executable, *arguments],
    cwd=cwd, capture_output=True, text=True, timeout=300, env={**clean, **environment},
  )  # fmt: skip


def test_the_package_alone_describes_an_algorithm(tmp_path):
  """Away from the repository, with nothing but `tff_momentum` to import, and nothing on stderr."""
  ignored = shutil.ignore_patterns("__pycache__")
  shutil.copytree(ROOT / "tff_momentum", tmp_path / "site" / "tff_momentum", ignore=ignored)
  away = tmp_path / "away"
  away.mkdir()
  done = run("-m", "tff_momentum.describe", "scaffold", cwd=away, PYTHONPATH=str(tmp_path / "site"))
  assert (done.returncode, done.stderr) == (0, "")
  for part in (
    "scaffold (SCAFFOLD, Alg. 1)",
    "https://arxiv.org/abs/1910.06378",
    "rule  y ← y − η_l (g − c_i + c)",
    "client_learning_rate   required; here 0.1",
    "option                 'II'",
    "on a linear 784-10 model with 7,850 parameters, 31,400 bytes",
    "server state  <x=<float32[784,10],float32[10]>,c=<float32[784,10],float32[10]>>",
    "upload    62,800 bytes, 2 models",
    "together  2 times FedAvg's",
  ):
    assert part in done.stdout, done.stdout


@pytest.mark.parametrize(
  ("arguments", "sentence"),
  [
    (
      ["scafold"],
      "expected the name of an algorithm; found 'scafold'. Did you mean scaffold or scaffold_m?",
    ),
    ([], "expected the name of an algorithm; found none. There are fedsgd, fedavg, "),
    (["qqqq"], "expected the name of an algorithm; found 'qqqq'. There are fedsgd, fedavg, "),
    (["fedavgm", "--set", "bta=0.9"], "fedavgm has no 'bta'; it has client_learning_rate, "),
    (["fedavgm", "--set", "beta"], "--set takes name=value, as in --set beta=0.9; found 'beta'."),
    (["fedavgm", "--set", "beta=2"], "beta must be "),
    (["fedavgm", "--nothing"], "unrecognized arguments: --nothing; --help shows how to call it."),
  ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments, sentence, capfd):
  assert describe.main(arguments) == 2
  out, err = capfd.readouterr()
  assert out == ""
  assert err.startswith(f"describe: {sentence}")
  assert err.count("\n") == 1
  assert "--list" not in err


def test_a_mistake_leaves_nothing_else_on_stderr():
  for arguments in (["scafold"], ["fedavgm", "--set", "beta=2"]):
    done = run("-m", "tff_momentum.describe", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr


def test_wrong_names_are_found_before_tensorflow_is_loaded():
  code = """
import sys
from tff_momentum import describe
describe.main(["scafold"])
print("tensorflow" in sys.modules)
"""
  assert run("-c", code).stdout.strip() == "False"


@pytest.mark.parametrize("name", ["mime_mvr", "fedmax", "autofedgm", "fedgm_staged"])
def test_algorithms_with_special_needs_are_described(name):
  text = describe.describe(name, {}, describe.linear_model(), "a model")
  assert text.startswith(f"{name} (")
  assert ("exchange in round 0 only" in text) == (name == "mime_mvr")
  assert all(f"\n  {parameter} " in text for parameter in ALGORITHMS[name].hyperparameters)


def test_given_hyperparameters_are_used():
  text = describe.describe(
    "fedpaq", describe.hyperparameters("fedpaq", ["bits=32"]), describe.linear_model(), "a model"
  )
  assert "bits                   32                       a whole number at least 2\n" in text
  assert "together  1 times FedAvg's" in text


def test_the_program_takes_the_model_of_a_task():
  program = str(pathlib.Path("experiments") / "describe.py")
  done = run(program, "mime", "--task=digits")
  assert (done.returncode, done.stderr) == (0, "")
  assert "on the model of digits with 4,810 parameters" in done.stdout
  assert "together  3 times FedAvg's" in done.stdout
  done = run(program, "mime", "--task=digit")
  assert done.returncode == 2
  assert done.stderr.startswith("describe: expected the name of a task; found 'digit'. There are ")
  assert done.stderr.count("\n") == 1
