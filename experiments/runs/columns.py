"""The columns of metrics.csv: one row per round, an empty cell where a value was not measured.

round                    the round, from 1
train/...                the model's loss and metrics on the cohort's data
eval/...                 the same on the test data
validation/...           the same on the data of held-out clients, with `--tune_on=validation`
client_eval/...          mean, worst tenth and deviation over clients' own held-out data, every few rounds
bytes/...                sent down to and up from the clients; bytes/total adds up all rounds so far
clients, clients/...     clients that reported, and those that did not or whose update was not used
update_norm              the norm of the server's update
rounds/, staleness/, virtual/...    what uneven and asynchronous clients measure
privacy/epsilon          ε that the rounds so far have spent, with `--aggregator=dp(...)`
diagnostics/...          what `--diagnostics` measures, every few rounds
seconds/...              wall-clock time; the only columns that differ between two runs with one seed
"""

from collections.abc import Sequence

ROUND = "round"
TRAIN = "train/"
EVAL = "eval/"
VALIDATION = "validation/"
CLIENT_EVAL = "client_eval/"
PRIVACY = "privacy/epsilon"
SECONDS = "seconds/"
LOSSES = ("train/loss", "eval/loss", "validation/loss")
# Clients and rounds that were lost, counted in the round in which they were; a summary adds them up.
COUNTERS = ("clients/dropped", "clients/late", "clients/stale", "rounds/skipped")
# Clients that downloaded the model and whose update was not used.
UNUSED_CLIENTS = ("clients/dropped", "clients/late", "clients/stale")


def header(
  metrics: Sequence[str],
  measured: Sequence[str] = (),
  diagnostics: Sequence[str] = (),
  *,
  client_eval: Sequence[str] = (),
  validation: bool = False,
  private: bool = False,
) -> list[str]:
  """All columns of a run, in order.

  Args:
    metrics: the names of the model's metrics.
    measured: the columns that the cohorts measure; with them comes the time of the virtual clock.
    diagnostics: the columns of the diagnostics; with them comes their time.
    client_eval: the columns of the evaluation on clients' own data.
    validation: whether the model is also evaluated on held-out clients.
    private: whether the run spends privacy.
  """
  evaluated = [name for name in metrics if name != "num_examples"]
  return [
    ROUND,
    *(TRAIN + name for name in metrics),
    *(EVAL + name for name in evaluated),
    *(VALIDATION + name for name in evaluated if validation),
    *client_eval,
    *("bytes/down", "bytes/up", "bytes/total", "clients", "clients/non_finite", "update_norm"),
    *([PRIVACY] if private else []),
    *measured,
    *diagnostics,
    *(["seconds/clock"] if measured else []),
    *("seconds/store", "seconds/data", "seconds/train"),
    *(["seconds/diagnostics"] if diagnostics else []),
    "seconds/eval",
  ]
