"""Which flags the reference lines, `--algo=centralised` and `--algo=local_only`, do not take."""

from absl import flags

from experiments.cli.errors import UserError
from tff_momentum.registry import REFERENCE_LINES

CENTRALISED, LOCAL_ONLY = "centralised", "local_only"
# Nothing is sent or averaged.
_NO_MEAN = ("compression", "transform", "aggregator", "async", "diagnostics")
# Nobody is selected, waited for or lost.
_NO_CLIENTS = ("participation", "availability", "day", "dropout_rate", "client_speed", "deadline",
               "over_selection")  # fmt: skip


def check(given: flags.FlagValues) -> None:
  """Raises `UserError` for flags that have no meaning for a reference line."""
  if given.algo not in REFERENCE_LINES:
    return
  why = dict.fromkeys(_NO_MEAN, "nothing is sent or averaged")
  if given.algo == CENTRALISED:
    why |= dict.fromkeys(_NO_CLIENTS, "all data is in one place")
  for name, reason in why.items():
    if given[name].value:
      raise UserError(
        f"--{name} has no meaning for --algo={given.algo}, where {reason}; leave it out."
      )
