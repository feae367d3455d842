"""From the command line to the configuration of a run: what is checked when, and what config.json says."""

import dataclasses
import json
import subprocess
import sys

import pytest
from absl import flags

from experiments.cli import assignments, run_config, run_request
from experiments.cli import flags as cli_flags
from experiments.cli.errors import UserError
from experiments.runs import reader
from experiments.runs.folder import RunFolder
from experiments.training import build
from tasks import digits
from tests import ROOT


@pytest.fixture(autouse=True)
def _flags():
  if "task" not in flags.FLAGS:
    cli_flags.define_flags()
  yield
  for name in flags.FLAGS:
    flags.FLAGS[name].unparse()


def request(*arguments):
  cli_flags.parse(["run.py", *arguments])
  return run_request.from_flags(flags.FLAGS)


def config(*arguments, **options):
  asked = request("--task=digits", *arguments)
  return run_config.resolve(asked, digits.load(seed=1, num_clients=12, **options))


def test_what_is_not_given_is_the_tasks():
  found = config("--algo=scaffold")
  defaults = digits.load(seed=1).defaults
  assert found.total_rounds == defaults.total_rounds
  assert found.clients_per_round == min(defaults.clients_per_round, 12)
  assert found.client_epochs_per_round == defaults.client_epochs_per_round
  assert found.hyperparameters == {"client_learning_rate": defaults.client_learning_rate}
  assert found.experiment_name == "digits_scaffold_1"
  assert (found.num_clients, found.data) == (12, "embedded")


def test_what_is_given_wins():
  found = config("--algo=fedavgm", "--set=beta=0.5", "--client_learning_rate=step(0.1, every=9)", "--seed=3",
                 "--client_steps_per_round=4", "--clients_per_round=2", "--scale=0.5")  # fmt: skip
  assert found.hyperparameters == {"client_learning_rate": "step(0.1, every=9)", "beta": 0.5}
  assert (found.client_steps_per_round, found.client_epochs_per_round) == (4, None)
  assert found.clients_per_round == 2  # a number that was typed is not scaled
  assert found.total_rounds == round(0.5 * digits.load(seed=1).defaults.total_rounds)


def test_an_algorithm_without_local_steps_has_no_client_learning_rate():
  assert config("--algo=fedsgd").hyperparameters == {}


def test_a_configuration_cannot_be_changed():
  with pytest.raises(dataclasses.FrozenInstanceError):
    config("--algo=fedavg").seed = 2


def test_config_json_is_read_back_as_it_was(tmp_path):
  found = config("--algo=autofedgm", "--diagnostics=drift,drift", "--dropout_rate=0.1")
  folder = RunFolder.open(str(tmp_path), found.as_json())
  folder.close()
  written = reader.read_config(folder.path / "config.json")
  assert written == json.loads(json.dumps(found.as_json()))
  assert written["async"] is True
  assert (written["diagnostics"], written["diagnostics_period"]) == (["drift"], 10)
  keys = {*cli_flags.FLAGS, "hyperparameters", "task_details", "versions"}
  assert set(written) <= keys  # so that --from_config finds a flag for each
  assert not {"quiet", "restart", "root_output_dir", "lean"} & set(written)


@pytest.mark.parametrize(
  ("arguments", "said"),
  [
    (["--set=bta=0.9"], r"the algorithm fedavgm has no 'bta' \(did you mean beta"),
    (["--set=num_clients=9"], "the algorithm fedavgm has no 'num_clients'"),
    (["--client_learning_rate=1", "--set=client_learning_rate=2"], "given twice"),
    (["--similarity=3"], "the task digits has no 'similarity'"),
    (["--task_set=nois=1"], "the task digits has no 'nois'"),
    (["--scale=2"], "--scale must be above 0 and at most 1"),
    (["--diagnostics=drft"], "diagnostics must be one of"),
  ],
)
def test_names_are_checked_from_the_registries(arguments, said):
  with pytest.raises(UserError, match=said):
    request("--task=digits", "--algo=fedavgm", *arguments)


def test_names_are_checked_before_tensorflow_is_imported():
  code = (
    "import sys, runpy\nsys.argv = ['run.py', '--task=digits', '--algo=fedavgm', '--set=bta=0.9']\n"
    "try: runpy.run_path('experiments/run.py', run_name='__main__')\n"
    "except SystemExit as e: print(e.code, 'tensorflow' in sys.modules)"
  )
  result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
  assert result.stdout.split() == ["2", "False"], result.stderr


def test_values_are_checked_before_any_data_is_loaded():
  with pytest.raises(ValueError, match=r"beta must be .* below 1; found 2"):
    build.check_values("fedavgm", assignments.hyperparameters("fedavgm", {"beta": "2"}))
  with pytest.raises(ValueError, match="compression"):
    build.check_compression("zip:9")
  build.check_values("fedavgm", {"beta": 0.5})


def test_options_of_the_task_keep_their_types():
  found = request(
    "--task=stackoverflow", "--algo=fedavg", "--data_dir=2024", "--task_set=vocabulary_size=9"
  )
  assert found.task_options == {"data_dir": "2024", "vocabulary_size": 9}
