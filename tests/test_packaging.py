"""What is installed, what is shipped, which names are public, and what happens with another TFF."""

import ast
import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
import tomllib
import types

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tff_momentum as tfm
from experiments.cli import tracking
from tests import ROOT
from tff_momentum import _moved

# The public names of modules that moved, as they were before the move.
OLD_NAMES = {
  "aggregation": ["Factory", "QuantisedState", "quantised"],
  "asynchronous": ["ServerState", "Message", "asynchronous"],
  "calls": ["evaluate"],
  "catalogue": ["ALGORITHMS", "Entry"],
  "algorithms.fedgm_maps": ["fedsnv", "fedpid", "fedasgd", "fedtm"],
  "algorithms.fedgm_stages": ["fedgm_staged", "stages_from"],
  "checks": ["number", "integer", "one_of", "boolean"],
  "exchanges": ["ROUND", "NOTHING", "ExchangeTypes", "Stage", "trip", "compile_exchange", "specs"],
  "gradients": [
    "Weights",
    "Batch",
    "Seed",
    "Tally",
    "Model",
    "features_and_labels",
    "as_model",
    "dense_gradient",
  ],
  "keras_model": ["Metric", "from_keras", "model_of"],
  "learning_process": ["as_learning_process"],
  "local": ["LocalWork", "Client"],
  "postponed": ["postpone"],
  "process": [
    "ProcessState",
    "ClientInput",
    "RoundOutput",
    "FederatedProcess",
    "NON_FINITE",
    "build_process",
  ],
  "quantisation": ["Quantiser", "qsgd", "uniforms", "qsgd_round", "quantiser", "compressed"],
  "sizes": ["dense_bytes"],
  "diagnostics.layers": ["Shape", "forward_operations", "RULES"],
  "diagnostics.lockstep": ["GRADIENTS", "Walked", "Stepped", "LockStep"],
  "diagnostics.updates": ["layer_names", "moved", "variance"],
  "diagnostics.walk": ["Walk", "Batches", "LocalSteps"],
  "runtime.eager_tensors": ["stop_leak"],
  "simulation.client_states": ["MemoryStore", "LmdbStore"],
}


def project():
  return tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked():
  return (ROOT / "requirements.lock").read_text().split()


def test_both_ways_to_install_pin_the_same_versions():
  assert project()["tool"]["uv"]["constraint-dependencies"] == locked()


def test_the_extras_of_trackers_are_what_the_command_line_names():
  extras = project()["project"]["optional-dependencies"]
  for name, (_, package) in tracking.TRACKERS.items():
    assert extras[name] == [package]


def test_pytest_finds_the_plugin_and_is_not_required():
  (plugin,) = project()["project"]["entry-points"]["pytest11"].items()
  assert plugin == ("tff_momentum.testing.pytest_plugin",) * 2
  assert importlib.util.find_spec(plugin[1]) is not None
  assert "pytest" not in requirements(project()["project"]["dependencies"])


def requirements(texts):
  """The version ranges by package name."""
  parsed = [Requirement(text.split(";")[0]) for text in texts]
  return {canonicalize_name(found.name): found.specifier for found in parsed}


def test_every_dependency_is_pinned():
  extras = project()["project"]["optional-dependencies"]
  tff = project()["dependency-groups"]["tff"]
  direct = [*project()["project"]["dependencies"], *extras["cluster"], *extras["dev"], *tff]
  pinned = dict(pin.split("==") for pin in locked())
  for name, allowed in requirements(direct).items():
    assert pinned[name] in allowed, name
  assert {*extras["cluster"], *extras["dev"], *tff} <= set(locked())
  assert all("==" in pin for pin in [*locked(), *extras["gpu"]])


def test_the_wheel_requires_what_tff_requires_but_not_tff():
  """So one line, `pip install --no-deps tensorflow-federated==0.87.0`, completes it."""
  ours = requirements(project()["project"]["dependencies"])
  theirs = requirements(importlib.metadata.requires("tensorflow-federated"))
  assert "tensorflow-federated" not in ours
  assert theirs.keys() <= ours.keys()
  others = {name for name in theirs if not _is_within(ours[name], theirs[name])}
  assert others == {"jax", "jaxlib", "typing-extensions"}


def _is_within(ours, theirs):
  """Whether the ranges have the same bounds; our pins need only lie in theirs."""
  pins = [bound.version for bound in ours if bound.operator == "==" and "*" not in bound.version]
  return pins[0] in theirs if pins else _bounds(ours) == _bounds(theirs)


def _bounds(specifier):
  """Whether each of many versions is allowed; `==1.*` and `>=1,<2` are the same."""
  minors = [f"{major}.{minor}" for major in range(30) for minor in range(100)]
  return [version for version in minors if specifier.contains(version)]


def test_a_missing_tff_is_installed_by_one_line(tmp_path):
  """The wheel cannot require TFF; its first import says what to do."""
  hide = (
    "import importlib.metadata as m; old = m.version\n"
    "def version(name):\n"
    "  if name == 'tensorflow-federated': raise m.PackageNotFoundError(name)\n"
    "  return old(name)\n"
    "m.version = version\nimport tff_momentum"
  )
  result = run_python(hide)
  assert result.returncode != 0
  assert "needs tensorflow-federated 0.87.0; found none" in result.stderr
  assert "pip install --no-deps tensorflow-federated==0.87.0" in result.stderr


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
  assert "pip install --no-deps tensorflow-federated==0.87.0" in result.stderr


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


def run_python(code, **options):
  return subprocess.run(
    [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, cwd=ROOT, **options
  )


def test_every_public_name_is_reachable_and_visible_to_tools():
  """`__all__`, tab completion, and what type checkers read agree."""
  for name in tfm.__all__:
    assert getattr(tfm, name) is not None
    assert name in dir(tfm)
  tree = ast.parse((ROOT / "tff_momentum/__init__.py").read_text())
  (checked,) = (node for node in tree.body if isinstance(node, ast.If))
  assert sorted(alias.name for each in checked.body for alias in each.names) == tfm.__all__
  modules = {name for name in tfm.__all__ if isinstance(getattr(tfm, name), types.ModuleType)}
  assert set(tfm._DEFINED_IN) == set(tfm.__all__) - modules


def test_the_package_is_typed():
  assert (ROOT / "tff_momentum/py.typed").exists()
  assert project()["tool"]["setuptools"]["package-data"] == {"tff_momentum": ["py.typed"]}


def test_unknown_names_are_attribute_errors():
  with pytest.raises(AttributeError, match="has no attribute 'procces'"):
    _ = tfm.procces
  with pytest.raises(ModuleNotFoundError):
    importlib.import_module("tff_momentum.procces")


@pytest.mark.parametrize("old", _moved.MODULES)
def test_a_moved_module_is_found_under_its_old_name(old):
  """It warns with the new place, and the names that users had are there."""
  new = f"tff_momentum.{_moved.MODULES[old][0]}"
  sys.modules.pop(f"tff_momentum.{old}", None)
  with pytest.warns(DeprecationWarning, match=rf"tff_momentum\.{old} moved to {new};"):
    module = importlib.import_module(f"tff_momentum.{old}")
  for name in OLD_NAMES.get(old, ()):
    assert getattr(module, name) is not None, name
  with pytest.raises(AttributeError):
    _ = module.there_never_was_such_a_name


def test_old_modules_are_attributes_and_give_the_same_objects():
  code = """
import tff_momentum as tfm
assert tfm.process.build_process is tfm.build_process
from tff_momentum.asynchronous import asynchronous
assert asynchronous is tfm.transforms.asynchronous.asynchronous
fedavg = tfm.algorithms.fedavg(client_learning_rate=0.1)
assert tfm.asynchronous(fedavg, 2).max_staleness == 2  # the name is a function of today, too
from tff_momentum import local
print(local.LocalWork(steps=3).steps)
"""
  result = run_python(code)
  assert result.stdout.strip() == "3", result.stderr
