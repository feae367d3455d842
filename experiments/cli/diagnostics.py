"""What the flags say about diagnostics."""

import dataclasses

from absl import flags

from experiments.cli.errors import as_user_errors
from tff_momentum import validation
from tff_momentum.diagnostics import NAMES


@dataclasses.dataclass(frozen=True)
class DiagnosticsOptions:
  """Which diagnostics to measure and how.

  Attributes:
    names: of `tff_momentum.diagnostics.NAMES`; none by default.
    period: number of rounds between measurements.
    clients: number of clients for the full gradient, None for as many as in the cohort.
    cohorts: number of extra cohorts for the variance.
    gradients: "batch" or "full", for drift and alpha.
  """

  names: tuple[str, ...] = ()
  period: int = 10
  clients: int | None = None
  cohorts: int = 1
  gradients: str = "batch"

  def as_json(self) -> dict[str, object]:
    """The values for config.json, under the names of their flags; all None without diagnostics."""
    used = bool(self.names)
    return {
      "diagnostics": list(self.names) if used else None,
      "diagnostics_period": self.period if used else None,
      "diagnostics_clients": self.clients if used else None,
      "diagnostics_cohorts": self.cohorts if used else None,
      "diagnostics_gradients": self.gradients if used else None,
    }


def from_flags(given: flags.FlagValues) -> DiagnosticsOptions:
  """The values of the flags; raises `UserError` for unknown names."""
  names = tuple(dict.fromkeys(name.strip() for name in given.diagnostics if name.strip()))
  with as_user_errors(ValueError):
    for name in names:
      validation.one_of("diagnostics", name, tuple(NAMES))
  return DiagnosticsOptions(
    names=names,
    period=given.diagnostics_period,
    clients=given.diagnostics_clients,
    cohorts=given.diagnostics_cohorts,
    gradients=given.diagnostics_gradients,
  )
