"""The GPU check of `experiments/doctor.py`: the driver, the cards, and the CUDA libraries of pip."""

import argparse

from experiments.checks.machine import CheckResult
from tff_momentum.runtime import gpu_decisions, gpu_machine
from tff_momentum.runtime.gpu_decisions import LIBRARIES, Machine


def gpu(arguments: argparse.Namespace) -> CheckResult:
  """The GPUs that can be used, and what is missing; a machine without a GPU is fine."""
  return report(gpu_machine.describe())


def report(machine: Machine) -> CheckResult:
  """Returns the line about a machine."""
  decisions = gpu_decisions.decide(machine)
  if machine.driver is None:
    return CheckResult(True, f"none (no NVIDIA driver); checked anyway: {_libraries(machine)}")
  problems = [sentence.text for sentence in decisions.sentences if sentence.is_problem]
  notes = [sentence.text for sentence in decisions.sentences if not sentence.is_problem]
  used = (
    f"{len(decisions.gpus)} of {len(machine.gpus)} can be used, {decisions.slots} clients at a time on each"
    " for small models."
    if decisions.kind == "GPU"
    else "None can be used."
  )
  if decisions.xla_flags:
    notes.append(f"XLA gets the flag {decisions.xla_flags}.")
  return CheckResult(not problems, " ".join([used, *notes]), " ".join(problems))


def audit(arguments: argparse.Namespace) -> CheckResult:
  """Looks for operations without a GPU kernel and for tensors that cross devices inside local steps."""
  from experiments.checks import gpu_subjects

  items = [f"item:{name}" for name in ("A", "B", "C", "D", "E", "F")]
  found = list(gpu_subjects.audit_all([*gpu_subjects.names(), *items]))
  failed = [f"{each['name']}: {each['failed']}" for each in found if "failed" in each]
  done = [each for each in found if "failed" not in each]
  missing = sorted({text for each in done for text in each["without_kernel"]})
  crossing = sorted({text for each in done for text in each["crossings"]})
  kernels = ", ".join(
    f"{each['name'].removeprefix('item:')} {each['launches']}"
    + " + compiled" * bool(each["compiled"])
    for each in done
    if each["name"].startswith("item:")
  )
  said = (
    f"{len(done)} algorithms, models and items: {len(missing)} operations without a GPU kernel, "
    f"{len(crossing)} tensors that cross devices inside local steps; kernels per local step: {kernels}"
  )
  bad = [*failed, *missing, *crossing]
  return CheckResult(not bad, said, "; ".join(bad[:5]))


def _libraries(machine: Machine) -> str:
  count = len(machine.libraries)
  installed = f"{count} of {len(LIBRARIES)} CUDA libraries of the extra gpu are installed"
  hidden = ", ".join(file for file, _ in machine.shadowing)
  parts = [
    installed if count else "the extra gpu is not installed",
    f"LD_LIBRARY_PATH hides {hidden}" if hidden else "LD_LIBRARY_PATH hides nothing",
    f"XLA finds {'libdevice' if machine.xla_root else 'no libdevice'}",
    "and ptxas" if machine.ptxas else "and no ptxas",
    f"cuDNN finds {'NVRTC' if machine.nvrtc_link else 'no NVRTC'}",
  ]
  return f"{parts[0]}, {parts[1]}, {parts[2]} {parts[3]}, {parts[4]}; --gpu_audit audits graphs"
