"""The flags of run.py: their definitions and help texts.

The names follow google-research/federated. A flag that is not given takes the task's default.
"""

import functools
from collections.abc import Sequence

from absl import flags

from experiments.cli.errors import UserError, suggestions
from experiments.cli.uneven_clients import CLIENT_SPEED, MAX_STALENESS, PATTERNS
from tff_momentum.diagnostics import NAMES as DIAGNOSTICS
from tff_momentum.simulation.clock import STALE_POLICIES

FLAGS = flags.FLAGS
RUNTIMES = ("inprocess", "ray", "tff")
TUNE_ON = ("validation", "test")
# Flags that set an option of the task; tasks without the option refuse them.
TASK_FLAGS = ("num_clients", "alpha", "model", "data", "data_dir", "similarity", "partition",
              "max_examples_per_client", "vocab_from_data")  # fmt: skip
# Flags that set a hyperparameter of the algorithm; algorithms without it refuse them.
ALGORITHM_FLAGS = ("client_learning_rate", "server_learning_rate", "client_weighting")


def define_flags() -> None:
  """Defines the flags of run.py."""
  _define_experiment()
  _define_training()
  _define_evaluation_and_output()
  _define_task_options()
  _define_uneven_clients()
  _define_diagnostics()


def parse(argv: Sequence[str]) -> None:
  """Parses a command line into `FLAGS`; raises `UserError` for unknown flags and invalid values."""
  try:
    rest = FLAGS(list(argv))
  except flags.UnrecognizedFlagError as error:
    hint = suggestions(error.flagname, FLAGS, "--")
    raise UserError(f"there is no flag --{error.flagname}{hint}; --help lists all flags.") from None
  except flags.Error as error:
    raise UserError(" ".join(str(error).replace("flag ", "").split()) + ".") from None
  if len(rest) > 1:
    raise UserError(f"expected only flags, as in --name=value; found {rest[1]!r}.")


def help_text() -> str:
  """Every flag and its help text, one per line."""
  defined = FLAGS.flags_by_module_dict()[__name__]
  return "\n".join(f"  --{flag.name:24} {' '.join(flag.help.split())}" for flag in defined)


def _define_experiment() -> None:
  flags.DEFINE_string("task", None, "Name of the task; --list shows all tasks. A task of your own: "
                      "my_package.my_module:load.")  # fmt: skip
  flags.DEFINE_string("algo", None, "Name of the algorithm or reference line (centralised, local_only); "
                      "--list shows all. One of your own: my_package.my_module:my_builder.")  # fmt: skip
  flags.DEFINE_bool("help", False, "Print all flags and exit.", allow_override=True)
  flags.DEFINE_bool("list", False, "List all tasks and algorithms and exit; with --algo, an algorithm's "
                    "hyperparameters, with --task, a task's options.")  # fmt: skip
  flags.DEFINE_bool("list_presets", False, "List the presets and exit; --preset=ghbm/table1, --task and "
                    "--algo choose among them.")  # fmt: skip
  flags.DEFINE_string("preset", None, "Flags of a paper's experiment, such as ghbm/table1/...; flags on the "
                      "command line override them.")  # fmt: skip
  flags.DEFINE_string("from_config", None, "Flags from another run's config.json; flags on the command line "
                      "override them.")  # fmt: skip
  flags.DEFINE_float("scale", None, "Factor in (0, 1] for the preset's or the task's rounds, cohort and test "
                     "data, for a quick trial.")  # fmt: skip
  flags.DEFINE_multi_string("set", [], "Hyperparameter of the algorithm, such as --set beta=0.9")
  flags.DEFINE_multi_string("task_set", [], "Option of the task, such as --task_set noise=0.1")
  flags.DEFINE_integer("seed", 1, "Random seed for the whole run.", lower_bound=0)


def _define_training() -> None:
  positive = functools.partial(flags.DEFINE_integer, lower_bound=1)
  positive("total_rounds", None, "Number of rounds.")
  positive("clients_per_round", None, "Number of clients in each round's cohort.")
  positive("client_epochs_per_round", None, "Number of passes over a client's data in a round.")
  positive("client_steps_per_round", None, "Number of local steps in a round, instead of epochs.")
  positive("client_batch_size", None, "Number of examples in a local step's batch.")
  flags.DEFINE_string("client_learning_rate", None, "Client learning rate: a number, or a schedule such as "
                      "step(0.1, every=100).")  # fmt: skip
  flags.DEFINE_string("server_learning_rate", None, "Server learning rate: a number or a schedule.")
  flags.DEFINE_float(
    "weight_decay",
    0.0,
    "Coefficient λ of the weight decay: λ·y is added to every gradient.",
    lower_bound=0,
  )
  flags.DEFINE_float("client_clip_norm", None, "Largest norm of a local step's gradient, over all weights, "
                     "before weight decay; longer ones are scaled down.", lower_bound=0)  # fmt: skip
  flags.DEFINE_enum(
    "client_weighting", None, ["uniform", "num_examples"], "Weights of the mean over clients."
  )
  flags.DEFINE_enum("non_finite", "reject", ["reject", "zero", "fatal"], "How to treat a client update with "
                    "infinities or NaN: reject it, count it as zero, or stop. All are counted.")  # fmt: skip
  flags.DEFINE_bool("stop_on_divergence", True, "Stop when the loss is no longer finite.")
  flags.DEFINE_string(
    "compression",
    None,
    "Compression of the uploads, such as qsgd:4 (bits) or qsgd(4, norm='max', bucket=512).",
  )
  flags.DEFINE_string("transform", None, "Changes to the algorithm: fedexp(epsilon=0.001), fedinit(beta=0.1) "
                      "or both, as in fedinit+fedexp.")  # fmt: skip
  flags.DEFINE_string("aggregator", None, "What takes the place of the mean over clients: "
                      "dp(noise_multiplier=1.0, clip=0.5), clip(norm=1.0) or robust().")  # fmt: skip
  flags.DEFINE_enum("runtime", "inprocess", RUNTIMES, "Where TFF computations run.")
  flags.DEFINE_string("ray_address", None, "With --runtime=ray: address of the cluster, host:port or auto; "
                      "default: a cluster on this machine.")  # fmt: skip
  flags.DEFINE_string("devices", "auto", "Devices to train on: auto, cpu, gpu, cpu:N for N logical CPUs, or "
                      "gpu:N for N logical devices on each GPU.")  # fmt: skip
  flags.DEFINE_enum("tf32", "off", ["off", "on"], "On GPUs since Ampere: compute matrix products and "
                    "convolutions in TF32, faster and with 10 bits of mantissa.")  # fmt: skip
  flags.DEFINE_bool("deterministic", False, "On GPUs: run deterministic kernels only; an operation without "
                    "one is an error.")  # fmt: skip
  flags.DEFINE_enum("gpu_convolutions", "cudnn", ["cudnn", "xla"], "On GPUs: leave convolutional models to "
                    "cuDNN, or compile them with XLA.")  # fmt: skip
  flags.DEFINE_enum("gpu_recurrent", "cudnn", ["cudnn", "xla"], "On GPUs: use cuDNN's kernel for recurrent "
                    "layers where Keras would, or compile them with XLA.")  # fmt: skip
  positive("max_clients_in_flight", None, "Largest number of clients that train in parallel.")
  flags.DEFINE_enum("client_states", "auto", ["auto", "memory", "disk"], "Where to keep the clients' states; "
                    "auto: on disk if all of them exceed 1 GiB.")  # fmt: skip


def _define_evaluation_and_output() -> None:
  positive = functools.partial(flags.DEFINE_integer, lower_bound=1)
  positive("rounds_per_eval", 1, "Number of rounds between evaluations.")
  flags.DEFINE_enum("tune_on", "test", TUNE_ON, "What to choose hyperparameters and the best model by: the "
                    "test data, or a fifth of the training clients, which are held out and never train. "
                    "sweep.py's default is validation.")  # fmt: skip
  positive("eval_examples", None, "Approximate number of test examples to evaluate on; the same ones every "
           "time.")  # fmt: skip
  positive("client_eval_period", None, "Number of rounds between evaluations on clients' own data; a fifth "
           "of each client's examples is then held out and never trains. Default: never.")  # fmt: skip
  positive("client_eval_clients", 100, "Number of clients to evaluate on, drawn once for a run.")
  flags.DEFINE_integer("client_eval_steps", 5, "Number of local steps after which the model is evaluated on "
                       "a client again (personalisation); 0 for no such evaluation.",
                       lower_bound=0)  # fmt: skip
  positive("rounds_per_checkpoint", 50, "Number of rounds between checkpoints.")
  positive("keep_checkpoints", 2, "Number of checkpoints to keep.")
  flags.DEFINE_string("root_output_dir", "runs", "Folder that contains all run folders.")
  flags.DEFINE_string(
    "experiment_name", None, "Name of this run's folder; default: <task>_<algo>_<seed>."
  )
  flags.DEFINE_bool("restart", False, "Start a new run in a new folder if the name is taken.")
  positive(
    "profile",
    None,
    "Number of rounds to trace for TensorBoard's profiler, from the second round on; viewing the trace needs "
    "the extra `profile`.",
  )
  flags.DEFINE_list("track", [], "Trackers to send each round's row to: wandb (Weights & Biases), mlflow, or "
                    "both as in wandb,mlflow; each needs the extra of its name.")  # fmt: skip
  flags.DEFINE_bool("lean", False, "Write no TensorBoard files and export no models.")
  flags.DEFINE_bool("quiet", False, "Show no progress bar.")


def _define_task_options() -> None:
  flags.DEFINE_integer(
    "num_clients", None, "Number of clients to split the data over.", lower_bound=1
  )
  flags.DEFINE_float(
    "alpha", None, "Concentration of the Dirichlet label split; 0 gives each client one class."
  )
  flags.DEFINE_string("model", None, "Which of the task's models to train.")
  flags.DEFINE_enum("data", None, ["real", "synthetic"], "Use the real data set or generated data.")
  flags.DEFINE_string("data_dir", None, "Folder of the data sets, with tff/ and tfds/ in it; default: "
                      "$TFM_DATA_DIR, or ~/.cache/tff_momentum.")  # fmt: skip
  flags.DEFINE_float("similarity", None, "Percentage of IID data in a sorted split.")
  flags.DEFINE_string(
    "partition", None, "How to split the data over clients, such as dirichlet:0.3."
  )
  flags.DEFINE_integer(
    "max_examples_per_client", None, "Largest number of examples per client.", lower_bound=1
  )
  flags.DEFINE_bool("vocab_from_data", None, "Build the vocabulary from the training split.")


def _define_uneven_clients() -> None:
  flags.DEFINE_enum("participation", None, PATTERNS, "How each cohort is chosen; default: uniform.")
  flags.DEFINE_string(
    "availability", None, "Distribution of the fraction of each day in which a client is available."
  )
  flags.DEFINE_float(
    "day", None, "Length of a day in rounds, or in virtual seconds with --async; default: 24."
  )
  flags.DEFINE_float(
    "dropout_rate", 0.0, "Probability that a client downloads the model and never reports."
  )
  flags.DEFINE_string(
    "client_steps_law", None, "Distribution of the clients' local steps, instead of epochs."
  )
  flags.DEFINE_string("client_speed", None, "Distribution of the clients' local steps per virtual second: "
                      "lognormal(1, 0.5), uniform(1, 4), 2, or trace:FILE. Turns virtual time on; default "
                      f"with --async: {CLIENT_SPEED}.")  # fmt: skip
  flags.DEFINE_float("deadline", None, "Virtual seconds after which a round ignores clients that have not "
                     "reported.")  # fmt: skip
  flags.DEFINE_float("over_selection", None, "Factor ≥ 1 for the clients that a round selects; the first "
                     "--clients_per_round to report are used.")  # fmt: skip
  flags.DEFINE_bool("async", None, "Train asynchronously: the server steps whenever --clients_per_round "
                    "updates have arrived. Default: on for autofed... algorithms.")  # fmt: skip
  flags.DEFINE_integer("max_staleness", None, "With --async: largest number of versions that an update may "
                       f"lag behind; default: {MAX_STALENESS}.", lower_bound=1)  # fmt: skip
  flags.DEFINE_enum("stale", None, STALE_POLICIES, "With --async: drop updates that lag behind further "
                    "(default), or block the server until they arrive.")  # fmt: skip
  flags.DEFINE_string("think_time", None, "With --async: distribution of the virtual seconds that a client "
                      "waits before it starts; default: 0.")  # fmt: skip


def _define_diagnostics() -> None:
  positive = functools.partial(flags.DEFINE_integer, lower_bound=1)
  flags.DEFINE_list("diagnostics", [], f"Diagnostics to measure: {', '.join(DIAGNOSTICS)}.")
  positive("diagnostics_period", 10, "Number of rounds between measurements.")
  positive("diagnostics_clients", None, "Number of clients to average the full gradient over, drawn again "
           "for every measurement; default: as many as in the cohort.")  # fmt: skip
  positive("diagnostics_cohorts", 1, "Number of extra cohorts to draw for the variance.")
  flags.DEFINE_enum("diagnostics_gradients", "batch", ["batch", "full"], "Gradients for drift and alpha: of "
                    "each step's batch, or of all the client's data, as in the papers and at many times the "
                    "cost.")  # fmt: skip
