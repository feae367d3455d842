"""The flags of the diagnostics, read without TensorFlow, and the measures that they ask for."""

from collections.abc import Mapping
from typing import Any

from absl import flags

from tff_momentum import validation
from tff_momentum.diagnostics import NAMES


def define(module: str) -> None:
  """Defines the flags, as the module's."""
  flags.DEFINE_list("diagnostics", [], f"What to measure: {', '.join(NAMES)}.", module_name=module)
  flags.DEFINE_integer("diagnostics_period", 10, "Measure in every so many rounds.", lower_bound=1,
                       module_name=module)  # fmt: skip
  flags.DEFINE_integer("diagnostics_clients", None, "Take the full gradient over so many clients, drawn "
                       "anew each time; default: as many as the round has.", lower_bound=1,
                       module_name=module)  # fmt: skip
  flags.DEFINE_integer("diagnostics_cohorts", 1, "Draw so many cohorts beside the round's own for the "
                       "variance.", lower_bound=1, module_name=module)  # fmt: skip
  flags.DEFINE_enum("diagnostics_gradients", "batch", ["batch", "full"], "Of drift and alpha: each "
                    "step's own batch, or all the client's data, as the papers write it and many times "
                    "as costly.", module_name=module)  # fmt: skip


def resolve(given: Any) -> dict[str, Any]:
  """The values as they will be used, all None without diagnostics; raises ValueError for unknown names."""
  names = list(dict.fromkeys(name.strip() for name in given.diagnostics if name.strip()))
  for name in names:
    validation.one_of("diagnostics", name, tuple(NAMES))
  own = (
    "diagnostics_period",
    "diagnostics_clients",
    "diagnostics_cohorts",
    "diagnostics_gradients",
  )
  return {
    "diagnostics": names or None,
    **{name: given[name].value if names else None for name in own},
  }


def build(config: Mapping[str, Any], process: Any, task: Any) -> Any:
  """The run's `diagnostics.measure.Measure`; None without diagnostics."""
  if not config["diagnostics"]:
    return None
  from tff_momentum.diagnostics.measure import Measure

  return Measure(
    process,
    task.clients,
    config["diagnostics"],
    period=config["diagnostics_period"],
    seed=config["seed"],
    sample=config["diagnostics_clients"],
    cohorts=config["diagnostics_cohorts"],
    gradients=config["diagnostics_gradients"],
  )
