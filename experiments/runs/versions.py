"""The versions that a run was made with, for config.json."""

import importlib.metadata
import pathlib
import platform
import subprocess

PACKAGES = ("tensorflow", "tensorflow-federated", "tensorflow-datasets", "numpy")


def versions() -> dict[str, str]:
  """The versions of Python, of the packages that affect results, and of this repository."""
  found = {name: importlib.metadata.version(name) for name in PACKAGES}
  return {"python": platform.python_version(), **found, "git": _git_revision()}


def _git_revision() -> str:
  root = pathlib.Path(__file__).resolve().parents[2]
  describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
  try:
    return subprocess.run(
      describe, capture_output=True, text=True, check=True, timeout=5
    ).stdout.strip()
  except (OSError, subprocess.SubprocessError):
    return "unknown"
