"""The graph rewrites in the order in which they run.

Each pass rewrites the graph of one TensorFlow computation in place; `prepared_graphs.prepare` runs them all,
once for every graph and choice of options. A pass relies on the ones above it.
"""

from collections.abc import Callable
from typing import NamedTuple

from tff_momentum.runtime.rewrite import (
  dataset_reduce,
  function_library,
  gpu_variants,
  max_pool_gradients,
  recurrent_loops,
  resource_order,
  session_graphs,
  xla_calls,
)
from tff_momentum.runtime.rewrite.options import RewriteOptions
from tff_momentum.runtime.rewrite.session_graphs import SessionGraph


class Pass(NamedTuple):
  """A named rewrite of a graph."""

  name: str
  rewrite: Callable[[SessionGraph, RewriteOptions], None]


PASSES = (
  # TFF's graphs expect a session, but run as parts of functions, for many clients at the same time.
  Pass("session_graphs", lambda graph, options: session_graphs.make_callable(graph)),
  # A session's graph may leave open what comes first, a change of a variable or its read.
  Pass("resource_order", lambda graph, options: resource_order.order(graph.graph_def)),
  # On GPUs, recurrent layers run cuDNN's kernels where Keras would use them.
  Pass(
    "gpu_variants", lambda graph, options: gpu_variants.use_gpu_variants(graph.graph_def, options)
  ),
  # The graphs of one computation share TensorFlow's function names, so the names must be unique.
  Pass(
    "function_library",
    lambda graph, options: function_library.make_names_unique(
      graph.graph_def, _suffix(graph, options)
    ),
  ),
  # XLA compiles the hot functions that `xla_choice` picks: on CPUs, recurrent models yes, convolutions no.
  Pass(
    "xla_calls",
    lambda graph, options: xla_calls.compile_hot_functions(graph.graph_def, options),
  ),
  # Compiled recurrent layers do the work that does not depend on the previous time step outside of the loop.
  Pass(
    "recurrent_loops",
    lambda graph, options: recurrent_loops.move_work_out_of_loops(graph.graph_def),
  ),
  # On CPUs, XLA compiles the max-pooling gradients of all other hot functions, whose CPU kernel is slow.
  Pass(
    "max_pool_gradients",
    lambda graph, options: max_pool_gradients.compile_gradients(graph.graph_def, options),
  ),
  # `Dataset.reduce` becomes a while loop, because TensorFlow's reduce kernel costs more than a small
  # client's training. The loop reads `ClientBatches` by index and data sets by an iterator. What it carries
  # depends on what XLA compiles.
  Pass(
    "dataset_reduce",
    lambda graph, options: dataset_reduce.rewrite_reduces(
      graph.graph_def, options.batches, on_gpu=options.device == "GPU"
    ),
  ),
)


def run_all(graph: SessionGraph, options: RewriteOptions) -> None:
  """Runs all passes on `graph`, in order.

  Raises:
    NeedsIterators: `options.batches` is set, and the graph uses its data in other ways.
  """
  for each in PASSES:
    each.rewrite(graph, options)


def _suffix(graph: SessionGraph, options: RewriteOptions) -> str:
  kind = options.batches.name if options.batches else "iterated"
  chosen = (options.compile, options.device, options.convolutions, options.recurrent)
  return "_".join((graph.digest, kind, *chosen))
