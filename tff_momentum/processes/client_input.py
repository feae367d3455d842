"""What a round takes: a `ClientInput` per client, or bare data sets where nothing else is needed.

`RoundComputation` is a process's `next`. It is a TFF computation like any other; called with a list of
`ClientBatches` or `tf.data.Dataset`s, it makes the `ClientInput`s itself.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum.algorithm import ClientState
from tff_momentum.processes.exchange import NOTHING
from tff_momentum.runtime import ClientBatches, DataReference


class ClientInput(NamedTuple):
  """A client's input to a round.

  Example:
    >>> import numpy as np, tff_momentum as tfm
    >>> x, y = np.zeros([3, 784], np.float32), np.zeros([3], np.int32)
    >>> data = tfm.ClientBatches((x, y), batch_size=2)
    >>> tfm.ClientInput(seed=np.int32([1, 7]), state=(), data=data).steps
    ()

  Attributes:
    seed: int32[2], different for each client and round.
    state: what the client kept from its last round; `FederatedProcess.initial_client_state` at first.
    data: the client's batches, `ClientBatches` or a `tf.data.Dataset`.
    steps: K_i, int32, if the process was built with `LocalWork(uneven=True)`; 0 stands for the usual number.
    staleness: the number of rounds since the client started, int32, if the algorithm is asynchronous.
  """

  seed: Any
  state: ClientState
  data: Any
  steps: Any = ()
  staleness: Any = ()


class RoundComputation(tff.framework.ConcreteComputation):
  """A process's `next`, which also takes bare data sets.

  `next(state, datasets)` stands for `next(state, clients)` with `ClientInput(seed=[t, i], state=(), data=d)`
  for the i-th data set d in round t = `state.round`. The same call therefore gives the same result, and every
  client and round has its own random numbers. Give `ClientInput`s for other seeds, for clients that keep a
  state, and for clients with their own number of steps.
  """

  @classmethod
  def of(cls, computation: tff.framework.ConcreteComputation) -> "RoundComputation":
    """The same computation, as a `RoundComputation`."""
    return cls(
      computation_proto=tff.framework.ConcreteComputation.get_proto(computation),
      context_stack=tff.framework.get_context_stack(),
      annotated_type=computation.type_signature,
    )

  def __call__(self, *args, **kwargs):
    """Runs a round; raises ValueError if bare data sets do not suffice or have other batches."""
    if len(args) == 2 and not kwargs:
      state, clients = args
      args = (state, self._with_inputs(state, clients))
    return super().__call__(*args, **kwargs)

  def _with_inputs(self, state: Any, clients: Any) -> Any:
    if _is_data(clients):
      raise ValueError(
        "Expected a list with the data set of each client; found one data set: write [data], or "
        "[ClientInput(...)]."
      )
    if not isinstance(clients, list | tuple) or not any(map(_is_data, clients)):
      return clients
    self._check_bare(clients)
    t = int(state.round)
    return [ClientInput(np.array([t, i], np.int32), (), data) for i, data in enumerate(clients)]

  def _check_bare(self, clients: Sequence[Any]) -> None:
    client_type = self.type_signature.parameter[1].member
    lacking = [name for name in ("state", "steps", "staleness") if client_type[name] != NOTHING]
    if lacking:
      raise ValueError(
        f"Expected a ClientInput with {' and '.join(lacking)} for each client of this process; found data "
        "sets: write [tfm.ClientInput(seed, state, data), ...], where `process.initial_client_state(seed)` "
        "is a new client's state, or let tfm.run do it."
      )
    others = [client for client in clients if not _is_data(client)]
    if others:
      raise ValueError(
        f"Expected a data set for every client, or a ClientInput for every client; found data sets and "
        f"{type(others[0]).__name__}."
      )
    for data in clients:
      if not isinstance(data, DataReference):
        _check_batches(data, client_type.data)


def _check_batches(data: tf.data.Dataset | ClientBatches, expected: tff.types.SequenceType) -> None:
  try:
    found = tff.types.tensorflow_to_type(data.element_spec)
  except (TypeError, ValueError):
    found = data.element_spec
  # A named tuple or a tuple of the same tensors will do, as for any other argument of a TFF computation.
  if not isinstance(found, tff.types.Type) or not expected.element.is_assignable_from(found):
    raise ValueError(
      f"Expected batches of the model's batch_spec, {expected.element}; found {found}: batch the data set "
      "with data.batch(n), and map its elements to this structure."
    )


def _is_data(value: object) -> bool:
  return isinstance(value, tf.data.Dataset | ClientBatches | DataReference)
