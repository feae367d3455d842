"""The cluster files: the Slurm script runs with real Ray nodes on this machine and stand-ins for Slurm."""

import os
import pathlib
import signal
import stat
import subprocess
import sys

import pytest

from tests import ROOT

SLURM = ROOT / "experiments" / "cluster" / "slurm.sh"

# Stand-ins for the Slurm commands of the script: list the job's nodes, and run a command on one of them.
COMMANDS = {
  "scontrol": '#!/bin/bash\ntr , "\\n" <<< "$3"\n',
  "srun": (
    "#!/bin/bash\n"
    'while [[ "$1" == -* ]]; do [[ "$1" == -w ]] && shift; shift; done\n'
    'if [[ "$1" == hostname ]]; then echo "127.0.0.1 "; else exec "$@"; fi\n'
  ),
}


@pytest.mark.slow
def test_the_slurm_script_trains_on_two_nodes(tmp_path):
  commands = tmp_path / "bin"
  commands.mkdir()
  for name, text in COMMANDS.items():
    (commands / name).write_text(text)
    (commands / name).chmod(stat.S_IRWXU)
  environment = dict(
    os.environ,
    PATH=f"{commands}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    VENV=str(pathlib.Path(sys.executable).parent.parent),
    SLURM_SUBMIT_DIR=str(ROOT),
    SLURM_JOB_ID="12345",
    SLURM_JOB_NODELIST="one,two",
    SLURM_JOB_NUM_NODES="2",
    SLURM_CPUS_PER_TASK="1",
  )
  flags = ["--task=digits", "--algo=fedavg", "--total_rounds=2", f"--root_output_dir={tmp_path}"]
  with (tmp_path / "log").open("w") as log:
    job = subprocess.Popen(
      ["bash", SLURM, *flags],
      env=environment,
      stdout=log,
      stderr=subprocess.STDOUT,
      start_new_session=True,
    )
    try:
      code = job.wait(timeout=900)
    finally:
      os.killpg(job.pid, signal.SIGTERM)  # Slurm ends the steps of a job like this
  text = (tmp_path / "log").read_text()
  assert code == 0, text[-3000:]
  assert "Finished 2 rounds" in text


def test_the_slurm_script_is_a_shell_script():
  subprocess.run(["bash", "-n", SLURM], check=True)


def _kuberay() -> dict:
  yaml = pytest.importorskip("yaml")
  return yaml.safe_load((SLURM.parent / "kuberay.yaml").read_text())


def test_the_kuberay_file_describes_a_job_with_the_same_image_everywhere():
  job = _kuberay()
  assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
  assert "experiments/run.py --runtime=ray" in job["spec"]["entrypoint"]
  cluster = job["spec"]["rayClusterSpec"]
  groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
  images = {c["image"] for group in groups for c in group["template"]["spec"]["containers"]}
  assert len(images) == 1
  assert f'"ray=={cluster["rayVersion"]}"' in (ROOT / "pyproject.toml").read_text()


def test_the_kuberay_pods_are_complete():
  """Checks the fields that the operator's schema requires, and that names refer to something."""
  cluster = _kuberay()["spec"]["rayClusterSpec"]
  for group in cluster["workerGroupSpecs"]:
    assert group["groupName"]
    assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
  for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
    assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    pod = group["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
      assert container["resources"]["limits"] == container["resources"]["requests"]
      assert {mount["name"] for mount in container["volumeMounts"]} == volumes
      assert all(isinstance(variable["value"], str) for variable in container["env"])
