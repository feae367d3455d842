"""The flags of uneven clients: who takes part, how much they work, who is late; read without TensorFlow."""

import functools
from typing import Any

from absl import flags

from tff_momentum import validation
from tff_momentum.registry import ALGORITHMS
from tff_momentum.simulation import clock, distributions

PATTERNS = ("uniform", "cyclic", "availability", "proportional", "same")
# Of asynchronous clients, unless the flags say otherwise.
MAX_STALENESS, CLIENT_SPEED = 20, "lognormal(1, 0.5)"
# The laws, and what every number of theirs must be.
LAWS: dict[str, dict[str, float]] = {
  "client_speed": dict(above=0),
  "think_time": dict(at_least=0),
  "availability": dict(above=0),
}
ONLY_ASYNCHRONOUS = ("max_staleness", "stale", "think_time")
ONLY_SYNCHRONOUS = ("participation", "deadline", "over_selection")


def define(module: str) -> None:
  """Defines the flags, as the module's."""
  texts, numbers, choices = (
    functools.partial(kind, module_name=module)
    for kind in (flags.DEFINE_string, flags.DEFINE_float, flags.DEFINE_enum)
  )
  choices("participation", None, PATTERNS, "Who takes part in a round; default: uniform.")
  texts("availability", None, "A law: the share of each day in which a client can be reached.")
  numbers("day", None, "Its length, in rounds, or in virtual seconds with --async; default: 24.")
  numbers("dropout_rate", 0.0, "The chance of a client to download the model and never report.")
  texts("client_steps_law", None, "A law: each client's local steps, in the place of epochs.")
  texts("client_speed", None, "A law: each client's local steps a virtual second, as in "
        "lognormal(1, 0.5), uniform(1, 4), 2, or trace:FILE. Turns virtual time on; default with --async: "
        f"{CLIENT_SPEED}.")  # fmt: skip
  numbers("deadline", None, "Virtual seconds after which a round leaves out who is late.")
  numbers(
    "over_selection", None, "Select so many times more clients, and take the first to report."
  )
  flags.DEFINE_bool("async", None, "Clients start when they please; the server steps whenever "
                    "--clients_per_round updates have arrived. Default: for autofed... algorithms.",
                    module_name=module)  # fmt: skip
  flags.DEFINE_integer("max_staleness", None, "With --async: the most versions that an update may be old; "
                       f"default: {MAX_STALENESS}.", lower_bound=1, module_name=module)  # fmt: skip
  choices(
    "stale",
    None,
    clock.STALE_POLICIES,
    "With --async: drop older updates (default), or block the server.",
  )
  texts(
    "think_time", None, "With --async, a law: virtual seconds before a client starts; default: 0."
  )


def resolve(given: Any) -> dict[str, Any]:
  """The values as they will be used, None for what is not; raises ValueError for what does not fit."""
  found = {name: given[name].value for name in (*ONLY_ASYNCHRONOUS, *ONLY_SYNCHRONOUS, "availability",
           "day", "dropout_rate", "client_steps_law", "client_speed")}  # fmt: skip
  by_itself = ALGORITHMS[given.algo].asynchronous
  asynchronous = by_itself if given["async"].value is None else given["async"].value
  for name in ONLY_SYNCHRONOUS if asynchronous else ONLY_ASYNCHRONOUS:
    if found[name] is not None:
      way = "synchronous rounds: leave it out, or use --noasync" if asynchronous else "--async"
      raise ValueError(f"--{name} is for {way}; found {found[name]!r}.")
  _check_numbers(found)
  _check_laws(found, given)
  if found["participation"] == "availability":
    found["availability"] = found["availability"] or "uniform(0.2, 0.8)"
  elif found["availability"] is not None and not asynchronous:
    raise ValueError(
      "--availability is for --participation=availability or --async; found neither."
    )
  if found["availability"] is not None:
    found["day"] = found["day"] or 24.0
  elif found["day"] is not None:
    raise ValueError("--day is for --participation=availability or --availability; found neither.")
  if asynchronous:
    found["max_staleness"] = found["max_staleness"] or MAX_STALENESS
    found["stale"] = found["stale"] or "drop"
    found["client_speed"] = found["client_speed"] or CLIENT_SPEED
  elif found["deadline"] or found["over_selection"]:
    found["client_speed"] = found["client_speed"] or "1"
  return {
    "async": asynchronous if by_itself else asynchronous or None,
    **found,
    "dropout_rate": found["dropout_rate"] or None,
  }


def _check_numbers(found: dict[str, Any]) -> None:
  validation.number("--dropout_rate", found["dropout_rate"], at_least=0, below=1)
  bounds: dict[str, dict[str, float]] = {
    "day": dict(above=0), "deadline": dict(above=0), "over_selection": dict(at_least=1),
  }  # fmt: skip
  for name, bound in bounds.items():
    if found[name] is not None:
      validation.number(f"--{name}", found[name], **bound)


def _check_laws(found: dict[str, Any], given: Any) -> None:
  for name, bounds in LAWS.items():
    if found[name] is not None:
      distributions.parse(f"--{name}", found[name], **bounds)
  if found["client_steps_law"] is not None:
    distributions.parse_integers("--client_steps_law", found["client_steps_law"])
    for name in ("client_steps_per_round", "client_epochs_per_round"):
      if given[name].value is not None:
        raise ValueError(f"--client_steps_law and --{name} exclude each other; give one of them.")
