"""The flags of a run, read and checked before anything heavy is imported.

The vocabulary is that of google-research/federated. A flag that is not given takes the task's default.
"""

from collections.abc import Iterable, Sequence

from absl import flags

import tasks
from experiments.cli import diagnostics, uneven_clients
from experiments.cli.errors import UserError, check_name, suggestions
from tff_momentum.registry import ALGORITHMS

FLAGS = flags.FLAGS
RUNTIMES = ("inprocess", "ray", "tff")
# Flags that a task takes only if its `load` has a parameter of that name.
TASK_FLAGS = ("num_clients", "alpha", "model", "data", "data_dir", "similarity", "partition",
              "max_examples_per_client", "vocab_from_data")  # fmt: skip
# Flags that an algorithm takes only if its builder has a parameter of that name.
ALGORITHM_FLAGS = ("client_learning_rate", "server_learning_rate", "client_weighting")
# What a builder may ask for and only the task and the cohort can tell, never a user; the values stand in
# for them while the hyperparameters are checked, before any data is loaded.
STAND_INS: dict[str, float] = {"num_clients": 10, "total_examples": 1000, "participation": 0.1,
                               "max_staleness": 10}  # fmt: skip


def define_flags() -> None:
  """Defines the flags of `run.py`."""
  number = flags.DEFINE_string  # a number or a schedule such as step(0.1, every=100)
  flags.DEFINE_string("task", None, "The task; --list shows them.")
  flags.DEFINE_string("algo", None, "The algorithm; --list shows them.")
  flags.DEFINE_bool("help", False, "Show the flags, and stop.", allow_override=True)
  flags.DEFINE_bool("list", False, "List tasks and algorithms, and stop.")
  flags.DEFINE_string("preset", None, "A paper's setting, as in ghbm/table1/...; typed flags win.")
  flags.DEFINE_string(
    "from_config", None, "Run again what a run's config.json says; typed flags win."
  )
  flags.DEFINE_float(
    "scale", None, "Shrink the preset's or the task's rounds, cohort and test data, for a try-out."
  )
  flags.DEFINE_multi_string("set", [], "A hyperparameter of the algorithm, as in --set beta=0.9.")
  flags.DEFINE_multi_string("task_set", [], "An option of the task, as in --task_set noise=0.1.")
  flags.DEFINE_integer("total_rounds", None, "Rounds to run.", lower_bound=1)
  flags.DEFINE_integer("clients_per_round", None, "Clients in a round's cohort.", lower_bound=1)
  flags.DEFINE_integer(
    "client_epochs_per_round", None, "Passes over a client's data.", lower_bound=1
  )
  flags.DEFINE_integer("client_steps_per_round", None, "A fixed number of local steps, instead of "
                       "epochs.", lower_bound=1)  # fmt: skip
  flags.DEFINE_integer("client_batch_size", None, "Examples that a local step sees.", lower_bound=1)
  number("client_learning_rate", None, "A number, or a schedule: step(0.1, every=100).")
  number("server_learning_rate", None, "A number, or a schedule.")
  flags.DEFINE_float(
    "weight_decay", 0.0, "Added to every gradient as weight_decay · y.", lower_bound=0
  )
  flags.DEFINE_enum("client_weighting", None, ["uniform", "num_examples"], "Weights of the mean.")
  flags.DEFINE_enum("non_finite", "reject", ["reject", "zero", "fatal"], "What becomes of a client's update "
                    "with infinities or NaN in it; all are counted.")  # fmt: skip
  flags.DEFINE_bool("stop_on_divergence", True, "End a run whose loss is no longer finite.")
  flags.DEFINE_string("compression", None, "Compress the uploads, as in qsgd:4 (bits).")
  flags.DEFINE_integer("rounds_per_eval", 1, "Evaluate every so many rounds.", lower_bound=1)
  flags.DEFINE_integer(
    "eval_examples",
    None,
    "Evaluate on about so many test examples, always the same.",
    lower_bound=1,
  )
  flags.DEFINE_integer(
    "rounds_per_checkpoint", 50, "Checkpoint every so many rounds.", lower_bound=1
  )
  flags.DEFINE_integer("seed", 1, "Of everything that is random.", lower_bound=0)
  flags.DEFINE_string("root_output_dir", "runs", "The folder of all experiments.")
  flags.DEFINE_string("experiment_name", None, "This run's folder in it; default: task_algo_seed.")
  flags.DEFINE_enum("runtime", "inprocess", RUNTIMES, "Where TFF computations run.")
  flags.DEFINE_string(
    "ray_address", None, "With --runtime=ray: host:port or auto; default: this machine alone."
  )
  flags.DEFINE_string("devices", "auto", "auto, cpu, gpu, or cpu:N for N logical devices.")
  flags.DEFINE_integer("max_clients_in_flight", None, "Clients that train at once.", lower_bound=1)
  flags.DEFINE_integer("keep_checkpoints", 2, "How many checkpoints to keep.", lower_bound=1)
  flags.DEFINE_bool("restart", False, "Start anew, in a new folder, where the name is taken.")
  flags.DEFINE_enum(
    "client_states", "auto", ["auto", "memory", "disk"], "Where clients' states are."
  )
  flags.DEFINE_integer("profile", None, "Trace so many rounds, from the second on, for TensorBoard's "
                       "profiler.", lower_bound=1)  # fmt: skip
  flags.DEFINE_bool(
    "lean", False, "Numbers and checkpoints alone: no TensorBoard files, no exported models."
  )
  flags.DEFINE_bool("quiet", False, "No progress bar, for batch systems.")
  flags.DEFINE_integer("num_clients", None, "Clients to split the data over.", lower_bound=1)
  flags.DEFINE_float("alpha", None, "The Dirichlet split's concentration; 0 is one class a client.")
  flags.DEFINE_string("model", None, "Which of the task's models.")
  flags.DEFINE_enum(
    "data", None, ["real", "synthetic"], "The data set itself, or made on the spot."
  )
  flags.DEFINE_string("data_dir", None, "The folder of the data sets, with tff/ and tfds/ in it.")
  flags.DEFINE_float("similarity", None, "Percentage of IID data in a sorted split.")
  flags.DEFINE_string("partition", None, "How to split a TFDS data set, as in dirichlet:0.3.")
  flags.DEFINE_integer("max_examples_per_client", None, "Use at most so many.", lower_bound=1)
  flags.DEFINE_bool("vocab_from_data", None, "Take the vocabulary from the training split.")
  uneven_clients.define(__name__)
  diagnostics.define(__name__)


def parse(argv: Sequence[str]) -> None:
  """Reads the flags, and checks every name in them; raises `UserError`."""
  try:
    rest = FLAGS(list(argv))
  except flags.UnrecognizedFlagError as error:
    hint = suggestions(error.flagname, FLAGS, "--")
    raise UserError(f"there is no flag --{error.flagname}{hint}; --help shows all.") from None
  except flags.Error as error:
    raise UserError(" ".join(str(error).replace("flag ", "").split()) + ".") from None
  if len(rest) > 1:
    raise UserError(f"flags are written --name=value; found {rest[1]!r} by itself.")
  if FLAGS.list or FLAGS["help"].value:
    return
  check_name("--task", FLAGS.task, tasks.TASKS, prefixes=("tfds:",))
  check_name("--algo", FLAGS.algo, ALGORITHMS)
  for name in ("set", "task_set"):
    assignments(name)
  if FLAGS.client_steps_per_round and FLAGS.client_epochs_per_round:
    raise UserError("--client_steps_per_round and --client_epochs_per_round exclude each other; "
                    "give one of them.")  # fmt: skip
  try:
    uneven_clients.resolve(FLAGS)
    diagnostics.resolve(FLAGS)
  except ValueError as error:
    raise UserError(str(error)) from None


def assignments(flag: str) -> dict[str, str]:
  """The values of a repeated flag `--set name=value`, by name."""
  return read_assignments(flag, FLAGS[flag].value)


def read_assignments(flag: str, texts: Iterable[str]) -> dict[str, str]:
  """Reads `name=value` texts; raises `UserError` for any other."""
  found: dict[str, str] = {}
  for text in texts:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not value:
      raise UserError(f"--{flag} takes name=value, as in --{flag} beta=0.9; found {text!r}.")
    if name in found:
      raise UserError(
        f"--{flag} {name} is given twice: {found[name]!r} and {value!r}; give it once."
      )
    found[name] = value
  return found


def help_text() -> str:
  """Every flag with its meaning, a line each."""
  defined = FLAGS.flags_by_module_dict()[__name__]
  return "\n".join(f"  --{flag.name:24} {flag.help}" for flag in defined)
