"""What the flags say about uneven clients: which take part, how much they work, how long they take."""

import dataclasses

from absl import flags

from experiments.cli.errors import UserError, as_user_errors
from tff_momentum import registry, validation
from tff_momentum.simulation import distributions

PATTERNS = ("uniform", "cyclic", "availability", "proportional", "same")
# The defaults of asynchronous training.
MAX_STALENESS, CLIENT_SPEED, COHORTS_IN_FLIGHT = 20, "lognormal(1, 0.5)", 2
# The bounds of every number in a distribution.
BOUNDS: dict[str, dict[str, float]] = {
  "client_speed": dict(above=0),
  "think_time": dict(at_least=0),
  "availability": dict(above=0),
}
ONLY_ASYNCHRONOUS = ("max_staleness", "stale", "think_time")
ONLY_SYNCHRONOUS = ("participation", "deadline", "over_selection")


@dataclasses.dataclass(frozen=True)
class UnevenClients:
  """How clients differ; None where a feature is off.

  Attributes:
    asynchronous: whether the server steps as updates arrive; None for an algorithm that is synchronous by
      itself and runs synchronously.
    max_staleness: the largest number of versions that an update may lag behind.
    stale: whether to "drop" updates that lag behind further or to "block" the server for them.
    think_time: distribution of the virtual seconds before a client starts.
    participation: how each cohort is chosen, one of `PATTERNS`.
    deadline: virtual seconds after which a round ignores late clients.
    over_selection: factor for the clients that a round selects.
    availability: distribution of the fraction of a day in which a client is available.
    day: length of a day, in rounds or virtual seconds.
    dropout_rate: probability that a client downloads the model and never reports.
    client_steps_law: distribution of local steps.
    client_speed: distribution of local steps per virtual second.
  """

  asynchronous: bool | None = None
  max_staleness: int | None = None
  stale: str | None = None
  think_time: str | None = None
  participation: str | None = None
  deadline: float | None = None
  over_selection: float | None = None
  availability: str | None = None
  day: float | None = None
  dropout_rate: float | None = None
  client_steps_law: str | None = None
  client_speed: str | None = None

  def as_json(self) -> dict[str, object]:
    """The values for config.json, under the names of their flags."""
    found = dataclasses.asdict(self)
    return {"async": found.pop("asynchronous"), **found}


def from_flags(given: flags.FlagValues) -> UnevenClients:
  """The resolved values of the flags; raises `UserError` for values that do not fit together."""
  found = UnevenClients(
    asynchronous=given["async"].value,
    max_staleness=given.max_staleness,
    stale=given.stale,
    think_time=given.think_time,
    participation=given.participation,
    deadline=given.deadline,
    over_selection=given.over_selection,
    availability=given.availability,
    day=given.day,
    dropout_rate=given.dropout_rate,
    client_steps_law=given.client_steps_law,
    client_speed=given.client_speed,
  )
  by_default = registry.info(given.algo).asynchronous
  asynchronous = by_default if found.asynchronous is None else found.asynchronous
  _check_mode(found, asynchronous)
  with as_user_errors(ValueError):
    _check_values(found)
  for name in ("client_steps_per_round", "client_epochs_per_round"):
    if found.client_steps_law is not None and given[name].value is not None:
      raise UserError(f"--client_steps_law and --{name} exclude each other; give one of them.")
  return dataclasses.replace(
    _with_defaults(found, asynchronous),
    asynchronous=asynchronous if by_default else asynchronous or None,
    dropout_rate=found.dropout_rate or None,
  )


def with_think_time(
  found: UnevenClients, steps: float, num_clients: int, clients_per_round: int
) -> UnevenClients:
  """Adds the default think time of asynchronous training, which keeps about `COHORTS_IN_FLIGHT` cohorts busy.

  Without pauses all clients train at the same time, and an update lags behind by as many versions as there
  are cohorts: more than `max_staleness` of them on a task with many clients.

  Args:
    found: how clients differ.
    steps: the local steps of an average client.
    num_clients: the number of training clients.
    clients_per_round: the number of updates per server step.
  """
  if not found.asynchronous or found.think_time is not None:
    return found
  cohorts = num_clients / clients_per_round
  speed = distributions.mean(
    distributions.parse("client_speed", found.client_speed or CLIENT_SPEED)
  )
  pause = steps / speed * (cohorts / COHORTS_IN_FLIGHT - 1)
  return dataclasses.replace(found, think_time=f"lognormal({pause:.3g}, 1)") if pause > 0 else found


def _check_mode(found: UnevenClients, asynchronous: bool) -> None:
  """Raises `UserError` for a flag of the other mode, synchronous or asynchronous."""
  for name, value in dataclasses.asdict(found).items():
    if value is not None and name in (ONLY_SYNCHRONOUS if asynchronous else ONLY_ASYNCHRONOUS):
      hint = "synchronous rounds: leave it out, or use --noasync" if asynchronous else "--async"
      raise UserError(f"--{name} is for {hint}; found {value!r}.")
  if found.availability is not None and not asynchronous and found.participation != "availability":
    raise UserError("--availability is for --participation=availability or --async; found neither.")
  if found.day is not None and not found.availability and found.participation != "availability":
    raise UserError("--day is for --participation=availability or --availability; found neither.")


def _check_values(found: UnevenClients) -> None:
  """Raises ValueError for a number that is out of bounds or a text that is no distribution."""
  validation.number("--dropout_rate", found.dropout_rate, at_least=0, below=1)
  if found.day is not None:
    validation.number("--day", found.day, above=0)
  if found.deadline is not None:
    validation.number("--deadline", found.deadline, above=0)
  if found.over_selection is not None:
    validation.number("--over_selection", found.over_selection, at_least=1)
  for name, text in (
    ("client_speed", found.client_speed),
    ("think_time", found.think_time),
    ("availability", found.availability),
  ):
    if text is not None:
      distributions.parse(f"--{name}", text, **BOUNDS[name])
  if found.client_steps_law is not None:
    distributions.parse_integers("--client_steps_law", found.client_steps_law)


def _with_defaults(found: UnevenClients, asynchronous: bool) -> UnevenClients:
  """Fills in what the given values imply."""
  if found.participation == "availability":
    found = dataclasses.replace(found, availability=found.availability or "uniform(0.2, 0.8)")
  if found.availability is not None:
    found = dataclasses.replace(found, day=found.day or 24.0)
  if asynchronous:
    return dataclasses.replace(
      found,
      max_staleness=found.max_staleness or MAX_STALENESS,
      stale=found.stale or "drop",
      client_speed=found.client_speed or CLIENT_SPEED,
    )
  if found.deadline or found.over_selection:
    return dataclasses.replace(found, client_speed=found.client_speed or "1")
  return found
