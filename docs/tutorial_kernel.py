"""Runs the cells of the tutorial on Python 3.11, whatever Python the notebook's host has.

TFF 0.87 and TensorFlow 2.14 have no wheels for Python 3.12, which Colab runs. On such a host `start` makes an
environment of Python 3.11 with uv, starts a Jupyter kernel in it, and sends every later cell there; text,
images and errors come back to the notebook. On Python 3.11 with the library installed it changes nothing.

This file runs on the host: it uses nothing but the standard library and what every Jupyter host has.
"""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys

KERNEL = "tff_momentum_tutorial"


def start(root: pathlib.Path) -> None:
  """Makes the cells after this one run on Python 3.11 with the library installed.

  Args:
    root: the folder of the repository.
  """
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  if sys.version_info[:2] == (3, 11) and _is_installed("tensorflow-federated"):
    sys.path.insert(0, str(root))
    print(f"Python {sys.version.split()[0]} with TensorFlow Federated: the cells run here.")
    return
  python = _make_environment(root)
  prefix = ["--prefix", sys.prefix]
  _run([python, "-m", "ipykernel", "install", *prefix, "--name", KERNEL], root)

  from IPython import get_ipython  # type: ignore[attr-defined]
  from jupyter_client.manager import start_new_kernel

  manager, client = start_new_kernel(kernel_name=KERNEL, cwd=str(root), startup_timeout=120)
  shell = get_ipython()
  shell.user_ns["_tutorial_kernel"] = RemoteKernel(manager, client)
  shell.input_transformers_cleanup.append(_forward)
  print(
    f"This notebook runs Python {sys.version.split()[0]}. Later cells run on Python 3.11, {python}."
  )


class RemoteKernel:
  """A kernel of another Python that runs cells and shows their outputs here."""

  def __init__(self, manager, client):
    self._manager, self._client = manager, client  # the kernel ends when the manager is collected

  def run(self, source: str) -> None:
    """Runs a cell there; raises RuntimeError where the cell raised."""
    reply = self._client.execute_interactive(source, output_hook=_show)
    if reply["content"]["status"] != "ok":
      raise RuntimeError(f"{reply['content'].get('ename')} in the cell above")


def _show(message: dict) -> None:
  from IPython.display import display

  kind, content = message["header"]["msg_type"], message["content"]
  if kind == "stream":
    print(content["text"], end="", file=sys.stderr if content["name"] == "stderr" else sys.stdout)
  elif kind in ("display_data", "execute_result"):
    display(content["data"], metadata=content["metadata"], raw=True)
  elif kind == "error":
    print("\n".join(content["traceback"]))


def _forward(lines: list[str]) -> list[str]:
  """A cell's text as a call that runs it in the other kernel."""
  return [f"_tutorial_kernel.run({''.join(lines)!r})\n"] if any(map(str.strip, lines)) else lines


def _make_environment(root: pathlib.Path) -> str:
  """An environment of Python 3.11 with the library and a Jupyter kernel; returns its interpreter."""
  uv = shutil.which("uv")
  if uv is None:
    _run([sys.executable, "-m", "pip", "install", "--quiet", "uv"], root)
    uv = shutil.which("uv") or str(pathlib.Path(sys.executable).with_name("uv"))
  folder = root / ".venv-tutorial"
  environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder)}
  environment.pop("VIRTUAL_ENV", None)
  _run([uv, "sync", "--quiet", "--python", "3.11", "--extra", "notebook"], root, environment)
  return str(folder / "bin" / "python")


def _run(
  command: list[str], folder: pathlib.Path, environment: dict[str, str] | None = None
) -> None:
  done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
  if done.returncode:
    raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _is_installed(distribution: str) -> bool:
  try:
    importlib.metadata.version(distribution)
  except importlib.metadata.PackageNotFoundError:
    return False
  return True
