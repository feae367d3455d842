"""--from_config: a run's own config.json gives the flags that run it again."""

import json
import subprocess
import sys

import pytest
from absl import flags

from experiments.cli import flags as cli_flags
from experiments.cli import from_config, run_config, run_request
from experiments.cli.assignments import settable
from experiments.cli.errors import UserError
from tasks import digits
from tests import ROOT
from tests.experiments.test_resume import assert_same_run, run
from tff_momentum.registry import ALGORITHMS, REQUIRED

CONFIG = {
  "task": "digits", "algo": "mime", "experiment_name": "one", "preset": None, "scale": None, "seed": 3,
  "total_rounds": 4, "clients_per_round": 5, "client_epochs_per_round": 2,
  "client_steps_per_round": None, "num_clients": 30, "data": "embedded", "weight_decay": 0.0,
  "hyperparameters": {"client_learning_rate": 0.1, "optimizer": "adam(0.9, 0.99)"},
  "task_details": {"num_clients": 30, "alpha": 0.5, "model": "mlp", "test_examples": 359},
  "versions": {"git": "unknown"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _flags():
  if "task" not in flags.FLAGS:
    cli_flags.define_flags()


def test_a_configuration_becomes_flags_and_what_is_typed_wins(tmp_path):
  path = tmp_path / "config.json"
  path.write_text(json.dumps(CONFIG))
  found = from_config.expand(["run.py", "--from_config", str(tmp_path), "--seed=9", "--alpha=1"])
  assert found[0] == "run.py"
  assert set(found[1:]) == {
    "--task=digits", "--algo=mime", "--experiment_name=one_again", "--seed=9", "--total_rounds=4",
    "--clients_per_round=5", "--client_epochs_per_round=2", "--weight_decay=0.0", "--num_clients=30",
    "--alpha=1", "--model=mlp", "--client_learning_rate=0.1", "--set=optimizer=adam(0.9, 0.99)",
  }  # fmt: skip
  argv = ["run.py", "--task=digits", "--algo=fedavg"]
  assert from_config.expand(argv) == argv


def test_what_is_no_configuration_is_told(tmp_path):
  with pytest.raises(UserError, match="cannot be read"):
    from_config.read(tmp_path / "nothing.json")
  (tmp_path / "config.json").write_text("[]")
  with pytest.raises(UserError, match=r"must name the config.json of a run"):
    from_config.read(tmp_path)
  with pytest.raises(UserError, match="exclude each other"):
    from_config.expand(["run.py", "--from_config=x", "--preset=y"])


# A value that differs from the default, for hyperparameters that are texts or None.
OTHER = {"client_weighting": {"uniform": "num_examples", "num_examples": "uniform"},
         "aggregate": {"moves": "models"}, "climb": {"normalised": "plain"},
         "duals": {"everyone": "cohort"},
         "direction": {"forward": "reverse"}, "effective_steps": {"auto": "steps"},
         "evaluate": {"last": "mean_of_two"},
         "first_moment": {"round": "all", "all": "round"},
         "inner": {"adamw": "sgd"}, "inner_state": {"keep": "reset"},
         "second_moment": {"tensor": "full"}, "early": {"zero": "initial"}, "v0": {None: 0.25},
         "first_gradient": {"full": "batch"}, "first_round": {"none": "shared", "initial": "none"},
         "optimizer": {"sgd": "adam(0.8, 0.7)", "sgdm(0.9)": "rmsprop(0.5)",
                       "sgdm(0.9, dampened=True)": "adam(0.8, 0.7)"},
         "option": {"II": "I"}, "norm": {"l2": "max"}, "bucket": {None: 64},
         "stages": {"stages_from(1000, 3, 1.0, 0.7, 0.9)": "stages_from(500, 2, 0.5, 0.6, 0.8)"},
         "tau_scaling": {"elapsed": "participation"}}  # fmt: skip


def another(name, default):
  if isinstance(default, bool):
    return not default
  if isinstance(default, int | float):
    return default - 1 if isinstance(default, int) else default / 2 + 0.125
  return 0.0625 if default is REQUIRED else OTHER[name][default]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_no_hyperparameter_follows_a_default_that_changes_later(tmp_path, algo):
  """Every hyperparameter differs from its default; with --from_config, all of them come back."""
  tuned = {name: another(name, default) for name, default in settable(algo).items()}
  assert all(tuned[name] != default for name, default in settable(algo).items())
  without = {name: None for name in tuned if name == "v0"}
  for values in (tuned, {**tuned, **without}):  # a value that is None stays None
    config = {**CONFIG, "algo": algo, "hyperparameters": values}
    (tmp_path / "config.json").write_text(json.dumps(config))
    argv = from_config.expand(["run.py", f"--from_config={tmp_path}"])
    for name in flags.FLAGS:
      flags.FLAGS[name].unparse()
    cli_flags.parse(argv)
    request = run_request.from_flags(flags.FLAGS)
    assert request.hyperparameters == config["hyperparameters"]
    found = run_config.resolve(request, digits.load(seed=1, num_clients=30))
    assert found.hyperparameters == config["hyperparameters"]
    assert not found.derived.values


@pytest.mark.slow
def test_a_run_from_its_configuration_is_the_same_to_the_bit(tmp_path):
  run(tmp_path, "one", "--algo=fedhbm", "--seed=5", "--alpha=0.3", "--compression=qsgd:8",
      "--total_rounds=6", "--set=beta=0.9")  # fmt: skip
  again = [sys.executable, "experiments/run.py", f"--from_config={tmp_path / 'one'}", "--quiet",
           f"--root_output_dir={tmp_path}", "--rounds_per_checkpoint=5"]  # fmt: skip
  subprocess.run(again, cwd=ROOT, check=True, timeout=600)
  assert_same_run(tmp_path / "one", tmp_path / "one_again")
