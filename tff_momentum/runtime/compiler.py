"""Compiles a TFF computation to the form that the planner reads.

This uses only those parts of TFF's compiler that change the structure: secure aggregations become their
plain bodies, composite intrinsics (sum, mean, min, max, arithmetic) become aggregates and TensorFlow, and
everything is flattened to call-dominant form, a list of calls in dependency order. It skips TFF's graph
optimisation, because TensorFlow optimises the fused functions, where it sees more.
"""

import tensorflow_federated as tff
from tensorflow_federated.python.core.backends.test import compiler as test_compiler
from tensorflow_federated.python.core.environments.tensorflow_backend import (
  tensorflow_tree_transformations,
)
from tensorflow_federated.python.core.impl.compiler import building_blocks, transformations

from tff_momentum.runtime import compat

compat.read_types_once()


def compile_computation(
  computation: tff.framework.ConcreteComputation,
) -> building_blocks.ComputationBuildingBlock:
  """Returns `computation` as a building block in call-dominant form."""
  insecure = test_compiler.replace_secure_intrinsics_with_bodies(computation)
  block, _ = tensorflow_tree_transformations.replace_intrinsics_with_bodies(
    insecure.to_building_block()
  )
  return transformations.to_call_dominant(block)
