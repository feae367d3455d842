"""The audit of what a GPU would run, for one algorithm, in a Python process of its own.

The process is its own because TensorFlow makes a second logical CPU device, which takes the place of the GPU,
only before it starts. It imports the builder, so the builder must be in a module.
"""

import json
import os
import pickle
import subprocess
import sys

from tff_momentum.testing.candidate import Candidate
from tff_momentum.testing.outcomes import ContractError, SkippedCheck

_SECONDS = 600
_AUDIT = "from tff_momentum.testing import gpu; gpu.main()"


def audit(candidate: Candidate) -> None:
  """Audits an algorithm.

  Raises:
    ContractError: An operation of a client has no GPU kernel, or a tensor leaves the GPU in a local step.
    SkippedCheck: Another process cannot import the builder.
  """
  path = os.pathsep.join([os.getcwd() if place == "" else place for place in sys.path])
  done = subprocess.run(
    [sys.executable, "-c", _AUDIT],
    input=_pickled(candidate),
    capture_output=True,
    timeout=_SECONDS,
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": path},
  )
  lines = [line for line in done.stdout.decode().splitlines() if line.startswith("{")]
  if done.returncode or not lines:
    last = (done.stderr.decode().strip().splitlines() or ["no message"])[-1]
    raise ContractError(f"Expected an audit of {candidate.name}; its process ended with: {last}")
  found = json.loads(lines[-1])
  if "missing" in found:
    raise SkippedCheck(_not_importable(candidate, found["missing"]))
  if found["without_kernel"]:
    raise ContractError(
      "Expected a GPU kernel for every operation of a client; found none for "
      f"{'; '.join(found['without_kernel'][:3])}. A GPU would copy its inputs to the host in every local "
      "step: use another operation, or another dtype."
    )
  if found["crossings"]:
    raise ContractError(
      "Expected the tensors of a local step to stay on the GPU; found that these leave it: "
      f"{'; '.join(found['crossings'][:3])}."
    )
  if not found["functions"]:
    raise ContractError("Expected a client's function to audit; found none on the audited device.")


def _pickled(candidate: Candidate) -> bytes:
  if getattr(candidate.builder, "__module__", None) == "__main__":
    raise SkippedCheck(_not_importable(candidate, "it is defined in a notebook or a script"))
  try:
    return pickle.dumps((candidate.builder, candidate.hyperparameters))
  except Exception as error:
    raise SkippedCheck(_not_importable(candidate, str(error))) from None


def _not_importable(candidate: Candidate, reason: str) -> str:
  return (
    f"the audit runs in a process of its own, which cannot import {candidate.name} ({reason}); define the "
    "builder at the top level of a module."
  )


def main() -> None:
  """Audits the builder that stdin brings and prints the findings as a line of JSON."""
  from tff_momentum.runtime import gpu_audit
  from tff_momentum.testing import quadratics
  from tff_momentum.testing.runs import run_process

  gpu_audit.set_audited_context()
  try:
    builder, hyperparameters = pickle.load(sys.stdin.buffer)
  except (ImportError, AttributeError) as error:
    print(json.dumps({"missing": str(error)}))
    return
  process = Candidate(builder, hyperparameters).build()
  found = gpu_audit.audit(
    lambda: run_process(process, quadratics.COHORTS[:1], dataset=quadratics.client_batches)
  )
  print(
    json.dumps(
      {
        "without_kernel": found.forbidden(),
        "crossings": [str(each) for each in found.crossings],
        "functions": found.functions,
      }
    )
  )
