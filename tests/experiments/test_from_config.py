"""--from_config: a run's own config.json gives the flags that run it again."""

import json
import subprocess
import sys

import pytest

from experiments.cli import flags as cli_flags
from experiments.cli import from_config
from experiments.cli.errors import UserError
from tests import ROOT
from tests.experiments.test_resume import assert_same_run, run

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
  from absl import flags

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


@pytest.mark.slow
def test_a_run_from_its_configuration_is_the_same_to_the_bit(tmp_path):
  run(tmp_path, "one", "--algo=fedhbm", "--seed=5", "--alpha=0.3", "--compression=qsgd:8",
      "--total_rounds=6", "--set=beta=0.9")  # fmt: skip
  again = [sys.executable, "experiments/run.py", f"--from_config={tmp_path / 'one'}", "--quiet",
           f"--root_output_dir={tmp_path}", "--rounds_per_checkpoint=5"]  # fmt: skip
  subprocess.run(again, cwd=ROOT, check=True, timeout=600)
  assert_same_run(tmp_path / "one", tmp_path / "one_again")
