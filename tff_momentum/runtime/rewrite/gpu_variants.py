"""Calls the variants for GPUs of hot functions, such as those with cuDNN's recurrent kernels.

A graph holds a variant only if it was traced in a process that knows of GPUs (see `hot_functions`). Functions
that nothing calls are dropped later, so graphs for CPUs stay as they are.
"""

import itertools

import tensorflow as tf

from tff_momentum.hot_functions import gpu_variant
from tff_momentum.runtime.rewrite.options import RewriteOptions


def use_gpu_variants(graph_def: tf.compat.v1.GraphDef, options: RewriteOptions) -> None:
  """Makes all calls of a hot function call its variant, in place, if clients run on GPUs.

  With `compile="on"`, XLA compiles all hot functions instead; it cannot compile cuDNN's kernels.
  """
  if options.device != "GPU" or options.recurrent != "cudnn" or options.compile == "on":
    return
  functions = graph_def.library.function
  known = {function.signature.name for function in functions}
  variants = {f.signature.name: gpu_variant(f) for f in functions}
  bodies = (function.node_def for function in functions)
  for node in itertools.chain(graph_def.node, *bodies):
    variant = variants.get(node.attr["f"].func.name) if "f" in node.attr else None
    if variant in known:
      node.attr["f"].func.name = variant
      node.op = "StatefulPartitionedCall"  # cuDNN's kernels are stateful
