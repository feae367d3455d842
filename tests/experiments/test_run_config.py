"""From the command line to the configuration of a run: what is checked when, and what config.json says."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
from absl import flags

from experiments.cli import assignments, derived_rates, run_config, run_request
from experiments.cli import flags as cli_flags
from experiments.cli.errors import UserError
from experiments.runs import reader
from experiments.runs.folder import RunFolder
from experiments.training import build, experiment
from tasks import digits
from tests import ROOT
from tff_momentum.default_rates import LocalSgd
from tff_momentum.registry import ALGORITHMS


@pytest.fixture(autouse=True)
def _flags():
  if "task" not in flags.FLAGS:
    cli_flags.define_flags()
  yield
  forget_flags()


def forget_flags():
  for name in flags.FLAGS:
    flags.FLAGS[name].unparse()


def request(*arguments):
  forget_flags()
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
  assert found.hyperparameters == {
    "client_learning_rate": defaults.client_learning_rate,
    "server_learning_rate": 1.0,
    "option": "II",
    "client_weighting": "uniform",
  }
  assert found.experiment_name == "digits_scaffold_1"
  assert (found.num_clients, found.data) == (12, "embedded")


def test_what_is_given_wins():
  found = config("--algo=fedavgm", "--set=beta=0.5", "--client_learning_rate=step(0.1, every=9)", "--seed=3",
                 "--client_steps_per_round=4", "--clients_per_round=2", "--scale=0.5")  # fmt: skip
  assert found.hyperparameters["client_learning_rate"] == "step(0.1, every=9)"
  assert found.hyperparameters["beta"] == 0.5
  assert (found.client_steps_per_round, found.client_epochs_per_round) == (4, None)
  assert found.clients_per_round == 2  # a number that was typed is not scaled
  assert found.total_rounds == round(0.5 * digits.load(seed=1).defaults.total_rounds)


def test_an_algorithm_without_local_steps_has_no_client_learning_rate():
  assert "client_learning_rate" not in config("--algo=fedsgd").hyperparameters


def test_every_hyperparameter_that_users_can_set_is_resolved():
  for algo in ALGORITHMS:
    assert set(config(f"--algo={algo}").hyperparameters) == set(assignments.settable(algo)), algo


def test_rates_that_are_not_given_follow_from_the_tasks_rate():
  rate = digits.load(seed=1).defaults.client_learning_rate
  found = config("--algo=mime", "--client_steps_per_round=4")
  assert found.hyperparameters["client_learning_rate"] == pytest.approx(0.1 * rate)
  assert list(found.derived.values) == ["client_learning_rate"]
  assert "momentum" in found.derived.reason.lower()
  found = config(
    "--algo=mime", "--client_steps_per_round=4", "--set=optimizer=sgdm(0.9, dampened=True)"
  )
  assert found.hyperparameters["client_learning_rate"] == rate
  found = config("--algo=mime", "--client_learning_rate=0.2")
  assert found.hyperparameters["client_learning_rate"] == 0.2
  assert not found.derived.values
  found = config("--algo=autofedavg", "--client_steps_per_round=7")
  assert found.hyperparameters["server_learning_rate"] == 4.9  # 0.7 · 7


@pytest.mark.parametrize(
  ("flags", "warned"),
  [
    (["--algo=fedavgm", "--async"], True),
    (["--algo=fedavgm", "--async", "--client_learning_rate=0.003"], False),
    (["--algo=fedavgm"], False),
    (["--algo=autofedgm"], False),  # has a rule for stale updates
  ],
)
def test_a_run_says_that_its_default_rates_are_those_of_synchronous_rounds(flags, warned):
  assert ("synchronous rounds" in experiment.derived_words(config(*flags))) == warned


def test_a_measured_rate_replaces_the_rule_unless_hyperparameters_are_given():
  sgd = LocalSgd(10**-0.5, 5.0)
  assert derived_rates.derive("stackoverflow", "mime", sgd, {}).values == {
    "client_learning_rate": 0.316
  }
  found = derived_rates.derive("stackoverflow", "mime", sgd, {"optimizer": "sgdm(0.99)"})
  assert found.values == {"client_learning_rate": 0.00253}  # 0.316 · 4 / (5 · 100)


def test_local_steps_are_counted_in_batches_of_a_sample_of_clients():
  rate = config("--algo=autofedavg").hyperparameters["server_learning_rate"]
  task = digits.load(seed=1, num_clients=12)
  batch_size, epochs = task.defaults.client_batch_size, task.defaults.client_epochs_per_round
  data = [task.dataset(client, np.zeros(2, np.int32), batch_size) for client in task.clients]
  expected = 0.7 * epochs * np.mean([int(d.cardinality()) for d in data])
  assert rate == pytest.approx(expected, rel=0.01)


def test_asynchronous_clients_pause_so_that_two_cohorts_train_at_a_time():
  flags_ = (
    "--algo=autofedgm",
    "--clients_per_round=2",
    "--client_steps_per_round=10",
    "--client_speed=1",
  )
  # 10 s of training; 12 clients are 6 cohorts, so the pause is 6/2 − 1 times as long.
  assert config(*flags_).uneven.think_time == "lognormal(20, 1)"
  assert config(*flags_, "--think_time=0").uneven.think_time == "0"
  assert config(*flags_, "--clients_per_round=6").uneven.think_time is None


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
  keys = {*cli_flags.FLAGS, "hyperparameters", "task_details", "versions", "validation_clients"}
  derived = {"steps_per_round", "privacy_delta"}  # from other flags, again in the next run
  assert set(written) <= keys | derived  # so that --from_config finds a flag for each
  assert not {"quiet", "restart", "root_output_dir", "lean"} & set(written)


def test_transforms_and_aggregators_are_part_of_the_configuration_and_of_the_bytes(tmp_path):
  """Resuming with others is refused; FedExP's upload has one number more, and quantised ones are smaller."""
  plain = config("--algo=scaffold")
  both = config("--algo=scaffold", "--transform=fedinit+fedexp")
  squeezed = config("--algo=scaffold", "--transform=fedinit+fedexp", "--compression=qsgd:4")
  clipped = config("--algo=scaffold", "--aggregator=clip(1.0)")
  private = config("--algo=scaffold", "--aggregator=dp(noise_multiplier=1, clip=1)")
  assert both.as_json()["transform"] == "fedinit+fedexp"
  assert clipped.as_json()["aggregator"] == "clip(1.0)"
  assert (clipped.privacy_delta, private.privacy_delta) == (None, 0.065)  # 12 clients
  task = digits.load(seed=1, num_clients=12)
  up = [build._process(c, task).bytes_up(1) for c in (plain, both, clipped)]
  assert up == [2 * 4 * 4810, 2 * 4 * 4810 + 4, 2 * 4 * 4810]
  assert build._process(squeezed, task).bytes_up(1) < up[0] / 2
  RunFolder.open(str(tmp_path), plain.as_json()).close()
  for other, name in ((both, "transform"), (clipped, "aggregator")):
    with pytest.raises(ValueError, match=f"{name} was None and is now"):
      RunFolder.open(str(tmp_path), other.as_json())


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
  with pytest.raises(UserError, match=r"beta must be .* below 1; found 2"):
    assignments.hyperparameters("fedavgm", {"beta": "2"})
  with pytest.raises(ValueError, match=r"beta must be .* below 1; found 2"):
    build.check_values("fedavgm", {"beta": "step(2, every=9)"})
  with pytest.raises(ValueError, match="compression"):
    build.check_compression("zip:9")
  build.check_values("fedavgm", {"beta": 0.5})


def test_options_of_the_task_keep_their_types(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "2024").mkdir()
  found = request(
    "--task=stackoverflow", "--algo=fedavg", "--data_dir=2024", "--task_set=vocabulary_size=9"
  )
  assert found.task_options == {"data_dir": "2024", "vocabulary_size": 9}
