"""Brings a TFF computation into the form that the planner reads.

Only the parts of TFF's compiler that change structure are used: secure aggregations become their
plain bodies, composite intrinsics (sum, mean, min, max, arithmetic) become aggregates and
TensorFlow, and everything is flattened to call-dominant form, a list of calls in dependency order.
TFF's own graph optimisation is left out: TensorFlow runs it on the fused functions, where it sees
more.
"""

import tensorflow_federated as tff
from tensorflow_federated.python.core.backends.test import compiler as test_compiler
from tensorflow_federated.python.core.environments.tensorflow_backend import (
  tensorflow_tree_transformations,
)
from tensorflow_federated.python.core.impl.compiler import building_blocks, transformations


def compile_computation(
  computation: tff.framework.ConcreteComputation,
) -> building_blocks.ComputationBuildingBlock:
  """Returns `computation` as a building block in call-dominant form."""
  insecure = test_compiler.replace_secure_intrinsics_with_bodies(computation)
  block, _ = tensorflow_tree_transformations.replace_intrinsics_with_bodies(
    insecure.to_building_block()
  )
  return transformations.to_call_dominant(block)
