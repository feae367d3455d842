"""gpu_check.py on logical CPU devices: all sections run, the report is complete, scaling is measured."""

import json
import os
import subprocess
import sys

import pytest

from experiments import gpu_check
from tests import ROOT


def test_a_short_check_on_logical_devices(tmp_path):
  result = subprocess.run(
    [sys.executable, "experiments/gpu_check.py", "--devices=cpu:2", "--quick", "--rounds=1",
     "--algorithms=fedavg,scaffold", f"--output_dir={tmp_path}"],
    cwd=ROOT, capture_output=True, text=True, timeout=600, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
  )  # fmt: skip
  assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
  report = json.loads((tmp_path / "gpu_check.json").read_text())
  assert report["machine"]["devices"] == ["/device:CPU:0", "/device:CPU:1"]
  assert len(report["kernels"]) == 2 * 3
  assert {row["algorithm"] for row in report["algorithms"]} == {"fedavg", "scaffold"}
  settings = [row["setting"] for row in report["items"]]
  assert settings == ["CPU", *(f"1 device, {n} in flight" for n in (1, 2, 4, 8)), "2 devices"]
  assert all(row["seconds"] > 0 for row in report["items"])
  assert all(row["to_gb_per_s"] > 0 for row in report["copies"])
  text = (tmp_path / "gpu_check.md").read_text()
  for title in ("Machine", "Compiled kernels", "Algorithms against the CPU", "Seconds a round",
                "Where time goes", "Copies"):  # fmt: skip
    assert f"## {title}" in text
  assert "2 of 2 algorithms agree" in text
  assert "failed" not in text


@pytest.mark.parametrize(
  ("flag", "said"),
  [
    ("--devices=cpu", "gpu, gpu:N or cpu:N"),
    ("--items=Z", "--items"),
    ("--algorithms=no", "--algorithms"),
  ],
)
def test_a_wrong_flag_is_one_sentence(flag, said, capsys):
  with pytest.raises(SystemExit) as refused:
    gpu_check.parse([flag])
  assert refused.value.code == 2
  assert said in capsys.readouterr().err


def test_a_section_that_fails_is_in_the_report_and_makes_the_exit_code_1():
  from experiments.checks import gpu_report

  broken = {"failed": "ValueError: no"}
  keys = ("machine", "kernels", "algorithms", "items", "copies")
  report = {"date": "today", "command": "gpu_check.py", **dict.fromkeys(keys, broken)}
  assert gpu_report.markdown(report).count("This section failed: ValueError: no") == 6
  assert len(gpu_report.failures(report)) == 5
