"""An asynchronous context for `tff.program`: each computation runs in a thread of its own."""

import asyncio
from typing import Any, NoReturn

import tensorflow_federated as tff


class AsyncContext(tff.framework.AsyncExecutionContext):
  """Runs computations of a synchronous context in threads; `invoke` returns a coroutine.

  `tff.program.NativeFederatedContext` expects a `tff.framework.AsyncExecutionContext`. This class is one, but
  it has no executor of TFF's.
  """

  def __init__(self, context: tff.framework.SyncContext):
    """Makes `context` asynchronous; it may still be used directly."""
    # The superclass would ask for an executor factory, which this context does not need.
    self._context = context

  @property
  def executor_factory(self) -> NoReturn:
    """Not available: computations do not run in TFF's executors."""
    raise AttributeError(
      "Expected no use of executor_factory, found one: computations of this context do not run in TFF's "
      "executors. Use tff.backends.native.create_async_local_cpp_execution_context if you need one."
    )

  async def invoke(self, comp: tff.framework.ConcreteComputation, arg: Any) -> Any:
    """Runs `comp` on `arg`, which may be a coroutine; returns its result as Python values.

    The event loop stays free while the computation runs. Computations may run at the same time.
    """
    if asyncio.iscoroutine(arg):
      arg = await arg
    return await asyncio.to_thread(self._context.invoke, comp, arg)
