"""What is installed, what is shipped, and what happens with another TFF."""

import subprocess
import sys
import tomllib

from tests import ROOT


def project():
  return tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked():
  return (ROOT / "requirements.lock").read_text().split()


def test_both_ways_to_install_pin_the_same_versions():
  assert project()["tool"]["uv"]["constraint-dependencies"] == locked()


def test_every_dependency_is_pinned():
  groups = project()["project"]["optional-dependencies"]
  direct = [*project()["project"]["dependencies"], *groups["cluster"], *groups["dev"]]
  assert set(direct) <= set(locked())
  assert all("==" in pin for pin in [*locked(), *groups["gpu"]])


def test_another_tff_is_refused_by_name(tmp_path):
  fake = tmp_path / "tensorflow_federated-0.60.0.dist-info"
  fake.mkdir()
  (fake / "METADATA").write_text(
    "Metadata-Version: 2.1\nName: tensorflow-federated\nVersion: 0.60.0\n"
  )
  code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import tff_momentum"
  result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
  assert result.returncode != 0
  assert "needs tensorflow-federated 0.87.0; found 0.60.0" in result.stderr
  assert "requirements.lock" in result.stderr


def test_importing_the_package_does_not_import_tensorflow():
  code = (
    "import sys, tff_momentum, tff_momentum.registry, tasks; print('tensorflow' in sys.modules)"
  )
  result = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT
  )
  assert result.stdout.strip() == "False", result.stderr


def test_tensorflow_probability_is_loaded_when_it_is_used_and_no_sooner():
  code = """
import sys, tff_momentum.processes.process
import tensorflow_federated as tff
name = "tensorflow_probability"
assert not any(m.startswith(name + ".") for m in sys.modules)
from tensorflow_privacy.privacy.dp_query import discrete_gaussian_utils
draws = discrete_gaussian_utils.sample_discrete_gaussian(scale=2, shape=[100])
assert draws.shape == [100] and any(m.startswith(name + ".") for m in sys.modules)
import tensorflow_probability as tfp
print(float(tfp.distributions.Normal(0.0, 1.0).mean()))
"""
  result = subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT
  )
  assert result.stdout.strip() == "0.0", result.stderr
