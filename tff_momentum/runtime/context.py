"""The in-process context: it runs a computation as a few TensorFlow functions on a pool of devices."""

import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import garbage
from tff_momentum.runtime import compat, compiler, stages, types, values
from tff_momentum.runtime.devices import HOST
from tff_momentum.runtime.executors import ClientExecutor
from tff_momentum.runtime.plan import Node, Plan, build_plan
from tff_momentum.runtime.rewrite import prepared_graphs, xla_choice
from tff_momentum.runtime.rewrite.options import CompileMode, NeedsIterators, RewriteOptions, using

# One thread compiles and traces at a time: TFF and TensorFlow do not promise that they can do more.
_tracing = threading.RLock()


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

  @garbage.paused()
  def levels(self, options: RewriteOptions) -> list[stages.Level]:
    """Returns the traced stages, with graphs rewritten according to `options`.

    Raises:
      NeedsIterators: The computation does not support `ClientBatches`.
    """
    if options not in self._levels:
      if options.batches and types.has_sequence(self.plan.result_type):
        raise NeedsIterators("a data set among the results")
      with _tracing, using(options):
        if options not in self._levels:  # another thread may have been faster
          self._levels[options] = stages.build_levels(self.plan)
    return self._levels[options]


class InProcessContext(tff.framework.SyncContext):
  """Runs any TFF computation: the server's part in this process, the clients' part in an executor.

  Several threads may invoke computations at the same time.
  """

  def __init__(
    self,
    start_executor: Callable[[], ClientExecutor],
    default_num_clients: int = 0,
    compile: CompileMode = "auto",
  ):
    """Does not start TensorFlow: `start_executor` is called at the first computation."""
    xla_choice.check_mode(compile)
    compat.stop_eager_tensor_leak()
    self._start_executor = start_executor
    self._default_num_clients = default_num_clients
    self._compile = compile

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
    for level in self._levels(program, run.intake):
      run.server_stage(level.server)
      run.client_pass(level.clients)
    if program.is_large:  # it takes no argument, so it will hardly run again
      _programs.pop(id(comp), None)
    return run.result(comp.type_signature.result)

  def _levels(self, program: Program, intake: values.Intake) -> list[stages.Level]:
    """Decides how the clients' data are read, converts them accordingly, and returns the levels to run."""
    if intake.rule is not None and program.reads_by_index:
      try:
        levels = program.levels(RewriteOptions(intake.rule, self._compile))
      except NeedsIterators:
        program.reads_by_index = False
      else:
        intake.settle(by_index=True)
        return levels
    intake.settle(by_index=False)
    return program.levels(RewriteOptions(None, self._compile))


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
        raise TypeError(
          f"Expected a list with one value for each client, found {type(value).__name__}; pass a list."
        )
      if self.num_clients not in (None, len(value)):
        raise ValueError(
          "Expected all arguments placed at clients to have the same number of values, "
          f"found {self.num_clients} and {len(value)}."
        )
      self.num_clients = len(value)
      self._clients[nodes] = [
        self.intake.leaves(item, nodes.type_spec, at_clients=True) for item in value
      ]
    else:
      self._server[nodes] = self.intake.leaves(value, nodes.type_spec)

  def server_stage(self, stage: stages.Stage | None) -> None:
    """Computes the server's nodes of one level."""
    if stage is None:
      return
    inputs = [leaf for node in stage.inputs for leaf in self._server[node]]
    outputs = iter(stage.function(inputs, HOST))
    self._server.update((node, _take(outputs, node)) for node in stage.outputs)

  def client_pass(self, client_pass: stages.ClientPass | None) -> None:
    """Runs the clients of one level and folds their results, in cohort order."""
    if client_pass is None:
      return
    shared = [leaf for node in client_pass.shared for leaf in self._server[node]]
    own = [self._clients[node] for node in client_pass.own]
    clients = [[leaf for part in own for leaf in part[i]] for i in range(self.num_clients or 0)]
    fold = _FoldState(client_pass.fold, self._server) if client_pass.fold else None
    kept: dict[Node, list[list[tf.Tensor]]] = {node: [] for node in client_pass.kept}
    for result in self._executor.run(client_pass.function, shared, clients):
      leaves = iter(result)
      by_node = {node: _take(leaves, node) for node in client_pass.outputs}
      for node, parts in kept.items():
        parts.append(by_node[node])
      if fold:
        fold.add([leaf for node in fold.values for leaf in by_node[node]])
    self._clients.update(kept)
    if fold:
      self._server.update(fold.finish())

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
    return [values.from_leaves(iter(part), member) for part in parts]


class _FoldState:
  """The running aggregates of a pass; it folds blocks of fixed size, so bits depend only on the order."""

  def __init__(self, fold: stages.Fold, server: dict[Node, list[tf.Tensor]]):
    self._fold = fold
    self.values = fold.values
    self._state = [leaf for aggregate in fold.aggregates for leaf in server[aggregate.zero]]
    self._captured = [leaf for node in fold.captured for leaf in server[node]]
    self._waiting: list[Sequence[tf.Tensor]] = []

  def add(self, leaves: Sequence[tf.Tensor]) -> None:
    self._waiting.append(leaves)
    if len(self._waiting) == stages.FOLD_BLOCK:
      self._flush(stages.FOLD_BLOCK)

  def finish(self) -> Iterator[tuple[Node, list[tf.Tensor]]]:
    while self._waiting:
      self._flush(1)
    leaves = iter(self._state)
    for aggregate in self._fold.aggregates:
      yield aggregate, _take(leaves, aggregate)

  def _flush(self, count: int) -> None:
    block, self._waiting = self._waiting[:count], self._waiting[count:]
    items = [leaf for leaves in block for leaf in leaves]
    self._state = self._fold.functions[count](self._state + self._captured + items, HOST)


def _take(leaves: Iterator[tf.Tensor], node: Node) -> list[tf.Tensor]:
  return [next(leaves) for _ in range(node.num_leaves)]
