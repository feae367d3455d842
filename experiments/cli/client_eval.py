"""What the flags say about evaluating the model on clients' own data."""

import dataclasses

from absl import flags

from experiments.cli.errors import UserError


@dataclasses.dataclass(frozen=True)
class ClientEvalOptions:
  """How to evaluate on clients.

  Attributes:
    period: number of rounds between evaluations; None for none.
    clients: number of clients to evaluate on.
    steps: local steps of the personalised model; 0 for no such model.
  """

  period: int | None = None
  clients: int = 100
  steps: int = 5

  def as_json(self) -> dict[str, object]:
    """The values for config.json, under the names of their flags; all None if it is off."""
    used = self.period is not None
    return {
      "client_eval_period": self.period,
      "client_eval_clients": self.clients if used else None,
      "client_eval_steps": self.steps if used else None,
    }


def from_flags(given: flags.FlagValues) -> ClientEvalOptions:
  """The values of the flags; raises `UserError` for flags without `--client_eval_period`."""
  for name in ("client_eval_clients", "client_eval_steps"):
    if given[name].present and given.client_eval_period is None:
      raise UserError(f"--{name} is for --client_eval_period; give the number of rounds, as in "
                      "--client_eval_period=10.")  # fmt: skip
  return ClientEvalOptions(
    period=given.client_eval_period,
    clients=given.client_eval_clients,
    steps=given.client_eval_steps,
  )
