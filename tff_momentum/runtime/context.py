"""The in-process context: it runs a computation as a few TensorFlow functions on a pool of devices."""

import dataclasses
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from absl import logging
from tensorflow_federated.python.core.impl.executors import cardinalities_utils

from tff_momentum import garbage, hot_functions
from tff_momentum.runtime import blocks, compat, compiler, stages, types, values
from tff_momentum.runtime.chunks import ChunkFunction
from tff_momentum.runtime.client_pass import MERGED_PER_CALL, ClientPass, Merge
from tff_momentum.runtime.devices import HOST
from tff_momentum.runtime.executors import ClientExecutor, PassWork
from tff_momentum.runtime.plan import Node, Plan, build_plan
from tff_momentum.runtime.rewrite import prepared_graphs, xla_choice
from tff_momentum.runtime.rewrite.options import NeedsIterators, RewriteOptions, using

# One thread compiles and traces at a time: TFF and TensorFlow do not promise that they can do more.
_tracing = threading.RLock()

# A computation is traced again for each rule of batches; more of them than this are a mistake.
_MAX_RULES = 8


class Program:
  """A compiled computation: its plan and the traced functions of its levels."""

  @garbage.paused()
  def __init__(self, computation: tff.framework.ConcreteComputation):
    self.plan: Plan = build_plan(compiler.compile_computation(computation))
    self.reads_by_index = True  # until tracing shows otherwise
    proto = tff.framework.ConcreteComputation.get_proto(computation)
    # It returns large constants, such as a model's weights, of which TensorFlow keeps about ten copies.
    self.is_large = self.plan.parameter_type is None and proto.ByteSize() > prepared_graphs.LARGE
    self._levels: dict[RewriteOptions, list[stages.Level]] = {}
    self._traced: set[tuple[RewriteOptions, bool]] = set()

  @garbage.paused()
  def levels(
    self,
    options: RewriteOptions,
    looped: bool,
    prepare: Callable[[ChunkFunction, RewriteOptions], None] = lambda function, options: None,
  ) -> list[stages.Level]:
    """Returns the traced stages, with graphs rewritten according to `options`.

    Args:
      options: How graphs are rewritten.
      looped: Which form of the clients' functions to trace (see `client_pass`).
      prepare: Is called with each of the clients' functions as soon as it is traced.

    Raises:
      NeedsIterators: The computation does not support `ClientBatches`.
    """
    if (options, looped) not in self._traced:
      if options.batches and types.has_sequence(self.plan.result_type):
        raise NeedsIterators("a data set among the results")
      if options.batches and len(self._levels) >= _MAX_RULES and options not in self._levels:
        raise NeedsIterators("a new preprocess function in every call, instead of the same one")
      with _tracing, using(options):  # other threads may wait here for the same functions
        if options not in self._levels:
          self._levels[options] = stages.build_levels(self.plan)
        for level in self._levels[options]:
          if level.clients:
            prepare(level.clients.function(looped), options)
        for level in self._levels[options]:
          if level.clients and level.clients.merge:
            _ = level.clients.merge.traced
        self._traced.add((options, looped))
      if self.plan.parameter_type is not None and types.has_sequence(self.plan.parameter_type):
        how = "by iterators" if options.batches is None else "by index"
        logging.info("Clients read their batches %s.", how)
    return self._levels[options]


class InProcessContext(tff.framework.SyncContext):
  """Runs any TFF computation: the server's part in this process, the clients' part in an executor.

  Several threads may invoke computations at the same time.
  """

  def __init__(
    self,
    start_executor: Callable[[], ClientExecutor],
    default_num_clients: int = 0,
    options: RewriteOptions = RewriteOptions(),  # noqa: B008 (frozen)
  ):
    """Does not start TensorFlow: `start_executor` is called at the first computation."""
    xla_choice.check_mode(options.compile)
    if options.device == "GPU":
      hot_functions.trace_gpu_variants()
    compat.stop_eager_tensor_leak()
    self._start_executor = start_executor
    self._default_num_clients = default_num_clients
    self._options = options

  @functools.cached_property
  def _executor(self) -> ClientExecutor:
    return self._start_executor()

  def invoke(self, comp: tff.framework.ConcreteComputation, arg: Any) -> Any:
    """Runs `comp` on `arg` and returns its result as Python values."""
    program = program_of(comp)
    run = _Run(program, self._executor)
    run.bind(arg)
    if run.num_clients is None:
      run.num_clients = self._default_num_clients
    for level in self._levels(program, run):
      run.server_stage(level.server)
      run.client_pass(level.clients)
    if program.is_large:  # it takes no argument, so it will hardly run again
      _programs.pop(id(comp), None)
    return run.result(comp.type_signature.result)

  def _levels(self, program: Program, run: "_Run") -> list[stages.Level]:
    """Decides how the clients' data are read, converts them accordingly, and returns the levels to run."""
    intake, looped = run.intake, run.looped
    if intake.rule is not None and program.reads_by_index:
      try:
        options = dataclasses.replace(self._options, batches=intake.rule)
        levels = program.levels(options, looped, self._prepare)
      except NeedsIterators as reason:
        logging.info("ClientBatches cannot be read by index: found %s.", reason)
        program.reads_by_index = False
      else:
        intake.settle(by_index=True)
        return levels
    intake.settle(by_index=False)
    return program.levels(self._options, looped, self._prepare)

  def _prepare(self, function: ChunkFunction, options: RewriteOptions) -> None:
    self._executor.prepare(function, options.batches)


# Keyed by identity, because hashing a computation serialises it.
_programs: dict[int, tuple[weakref.ref[tff.framework.ConcreteComputation], Program]] = {}


def program_of(computation: tff.framework.ConcreteComputation) -> Program:
  """Returns the program of `computation`, which is compiled once and cached while the computation lives."""
  key = id(computation)
  found = _programs.get(key)
  if found is not None and found[0]() is computation:
    return found[1]
  with _tracing:
    found = _programs.get(key)
    if found is None or found[0]() is not computation:  # no other thread was faster
      forget = weakref.ref(computation, lambda _: _programs.pop(key, None))
      found = _programs[key] = (forget, Program(computation))
  return found[1]


class _Run:
  """The values of one invocation."""

  def __init__(self, program: Program, executor: ClientExecutor):
    self._plan = program.plan
    self._executor = executor
    self.intake = values.Intake(executor.takes_references)
    self._server: dict[Node, list[tf.Tensor]] = {}
    self._clients: dict[Node, list[list[tf.Tensor]]] = {}
    self.num_clients: int | None = None

  def bind(self, argument: Any) -> None:
    """Converts the argument to the values of the plan's input nodes."""
    if self._plan.parameter_type is not None:
      self._bind(argument, self._plan.parameter, self._plan.parameter_type)

  def _bind(self, value: Any, nodes: Any, type_spec: tff.Type) -> None:
    if isinstance(nodes, tuple):
      assert isinstance(type_spec, tff.StructType)
      elements = values.elements_of(value, type_spec)
      for element, node, inner in zip(elements, nodes, type_spec, strict=True):
        self._bind(element, node, inner)
    elif nodes.at_clients:
      if not isinstance(value, (list, tuple)):
        raise cardinalities_utils.InvalidNonAllEqualValueError(value, type_spec)
      if self.num_clients not in (None, len(value)):
        raise ValueError(  # the first words are those of TFF's contexts: programs look for them
          f"Conflicting cardinalities for {tff.CLIENTS}: {len(value)} vs {self.num_clients}. Expected all "
          "arguments placed at clients to have the same number of values."
        )
      self.num_clients = len(value)
      self._clients[nodes] = self.intake.client_leaves(value, nodes.type_spec)
    else:
      self._server[nodes] = self.intake.leaves(value, nodes.type_spec)

  def server_stage(self, stage: stages.Stage | None) -> None:
    """Computes the server's nodes of one level."""
    if stage is None:
      return
    inputs = [leaf for node in stage.inputs for leaf in self._server[node]]
    outputs = iter(stage.function(inputs, HOST))
    self._server.update((node, _take(outputs, node)) for node in stage.outputs)

  @property
  def looped(self) -> bool:
    """Whether some blocks have more than one client, which then run in a loop."""
    return (self.num_clients or 0) > blocks.MAX_BLOCKS

  def client_pass(self, client_pass: ClientPass | None) -> None:
    """Runs the clients of one level and merges the blocks' partial aggregates, in order."""
    if client_pass is None:
      return
    own = [self._clients[node] for node in client_pass.own]
    count = self.num_clients or 0
    work = PassWork(
      client_pass.function(self.looped),
      shared=[leaf for node in client_pass.shared for leaf in self._server[node]],
      clients=[[leaf for part in own for leaf in part[i]] for i in range(count)],
      blocks=blocks.cut(count),
      sizes=[max(size, 1.0) for size in self.intake.sizes or [1.0] * count],
      partial_bytes=client_pass.partial_bytes,
    )
    total = _Total(client_pass.merge, self._server) if client_pass.merge else None
    kept: list[list[tf.Tensor]] = [[]] * count
    for block, result in self._executor.run(work):
      kept[work.blocks[block].start : work.blocks[block].stop] = result.kept
      if total:
        total.add(block, result.partial)
    leaves = [iter(work.function.kept(*each)) for each in zip(work.clients, kept, strict=True)]
    for node in client_pass.kept:
      self._clients[node] = [_take(parts, node) for parts in leaves]
    if total:
      self._server.update(total.finish())

  def result(self, type_spec: tff.Type) -> Any:
    """Builds the Python result; `type_spec` has its Python containers."""
    return self._result(self._plan.result, type_spec)

  def _result(self, nodes: Any, type_spec: tff.Type) -> Any:
    if isinstance(nodes, tuple):
      assert isinstance(type_spec, tff.StructType)
      elements = [
        (name, self._result(node, inner))
        for node, (name, inner) in zip(nodes, tff.structure.iter_elements(type_spec), strict=True)
      ]
      return values.in_container(elements, type_spec)
    member = types.member_of(type_spec)
    for_each_client = (
      isinstance(type_spec, tff.FederatedType)
      and type_spec.placement is tff.CLIENTS
      and not type_spec.all_equal
    )
    if not for_each_client:
      return values.from_leaves(iter(self._server[nodes]), member)
    parts = (
      self._clients[nodes] if nodes.at_clients else [self._server[nodes]] * (self.num_clients or 0)
    )
    if parts and not types.flat_specs(member):  # such as the states of clients that keep none
      empty = values.from_leaves(iter(()), member)
      if empty == ():
        return [empty] * len(parts)
    return [values.from_leaves(iter(part), member) for part in parts]


class _Total:
  """The aggregates of a pass; it merges groups of fixed size in order, so bits depend only on the order."""

  def __init__(self, merge: Merge, server: dict[Node, list[tf.Tensor]]):
    self._merge = merge
    self._zero = [leaf for aggregate in merge.aggregates for leaf in server[aggregate.zero]]
    self._captured = [leaf for node in merge.captured for leaf in server[node]]
    self._waiting: dict[int, list[tf.Tensor]] = {}
    self._total: list[tf.Tensor] | None = None
    self._next = 0

  def add(self, block: int, partial: list[tf.Tensor]) -> None:
    """Takes the partial aggregate of a block; blocks may come in any order."""
    self._waiting[block] = partial
    if self._total is None and 0 in self._waiting:
      self._total = self._waiting.pop(0)
      self._next = 1
    while all(self._next + i in self._waiting for i in range(MERGED_PER_CALL)):
      self._add_next(MERGED_PER_CALL)

  def finish(self) -> Iterator[tuple[Node, list[tf.Tensor]]]:
    """Yields the aggregates, after all blocks."""
    while self._waiting:
      self._add_next(1)
    leaves = iter(self._zero if self._total is None else self._total)
    for aggregate in self._merge.aggregates:
      yield aggregate, _take(leaves, aggregate)

  def _add_next(self, count: int) -> None:
    assert self._total is not None
    partials = [self._waiting.pop(self._next + i) for i in range(count)]
    self._next += count
    inputs = [*self._captured, *self._total, *(leaf for leaves in partials for leaf in leaves)]
    self._total = self._merge.traced[count](inputs, HOST)


def _take(leaves: Iterator[tf.Tensor], node: Node) -> list[tf.Tensor]:
  return [next(leaves) for _ in range(node.num_leaves)]
