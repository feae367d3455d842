"""Claims of FedGM: general server momentum, staged momentum, and autonomous (asynchronous) clients."""

from experiments.claim_trials.claim import Arm, Claim, Panel, TrialSetting
from experiments.claim_trials.expectations import at_least, beats, sooner

MIXED = ("--alpha=0.5", "--client_learning_rate=0.1")
SEEDS = (1, 2, 3, 4, 5)
MOMENTUM = {"beta": ("0.7", "0.9"), "nu": ("0.7", "0.9")}

# FedGM, Section 6: 100 clients, five per round, α = 0.5. Here one local epoch of ten steps; the paper has
# three epochs and trains a ResNet on CIFAR-10 for 1,000 rounds.
FEW_CLIENTS = ("--partition=dirichlet:0.5", "--num_clients=100", "--clients_per_round=5",
               "--client_batch_size=20", "--max_examples_per_client=200", "--client_epochs_per_round=1",
               "--client_learning_rate=0.1", "--rounds_per_eval=5")  # fmt: skip
FASHION = "Fashion-MNIST, Dirichlet(0.5), 5 of 100 clients, MLP"
SERVER = Panel(
  # None of these seeds had been run when this was written; `stages` had used seeds 1 to 5.
  TrialSetting(
    "fashion_server", FASHION, "fashion_mnist", FEW_CLIENTS, rounds=300,
    grid={"server_learning_rate": ("0.25", "0.5", "1", "2", "4")}, seeds=(11, 12, 13, 14, 15),
  ),
  (
    Arm("FedAvg", "fedavg"),
    # FedGM at ν = 1 is FedAvgM with η(1−β), so that one grid of η is fair to both.
    Arm("FedAvgM", "fedgm", ("--set=nu=1",), {"beta": ("0.7", "0.9")}),
    Arm("FedGM", "fedgm", (), MOMENTUM),
  ),
)  # fmt: skip
# FedGM, Section 6.2: η = 2, 1 and 0.5 in succession, against each of them for the whole run; five clients per
# round, as in the paper.
STAGES = Panel(
  TrialSetting(
    "fashion_stages", FASHION, "fashion_mnist", FEW_CLIENTS, rounds=300, grid={}, seeds=SEEDS,
  ),
  (
    Arm("stages 2, 1, 0.5", "fedgm_staged", ("--set=stages=stages_from(300, 3, 2.0, 0.7, 0.9)",)),
    *(
      Arm(f"η = {eta}", "fedgm", (f"--server_learning_rate={eta}", "--set=beta=0.7", "--set=nu=0.9"))
      for eta in ("2", "1", "0.5")
    ),
  ),
)  # fmt: skip


def _five(name: str, label: str, work: tuple[str, ...], rates: tuple[str, ...]) -> TrialSetting:
  """Five clients per server step; ten seeds, none of which had been run when this was written."""
  return TrialSetting(
    name, f"digits, α = 0.5, {label}", "digits",
    (*MIXED, "--clients_per_round=5", "--rounds_per_eval=2", *work), rounds=150,
    grid={"server_learning_rate": rates}, seeds=tuple(range(11, 21)),
  )  # fmt: skip


def _autonomous(pause: int) -> Panel:
  """Clients with log-normal speeds and pauses and one to nine local steps; the server never waits.

  Updates are divided by their number of steps, so η is about five times the synchronous one.
  """
  work = ("--client_speed=lognormal(1, 0.5)", f"--think_time=lognormal({pause}, 1)",
          "--client_steps_law=uniform(1, 9)")  # fmt: skip
  return Panel(
    _five(f"autonomous_{pause}", f"pauses of {pause} s", work, ("2.5", "5", "10")),
    (
      Arm("Autonomous FedAvg", "autofedavg"),
      Arm("Autonomous FedGM", "autofedgm", (), MOMENTUM),
    ),
  )


SHORT, LONG = _autonomous(30), _autonomous(100)
IDEAL = Panel(  # every client takes five steps and none is late
  _five("synchronous", "synchronous", ("--client_steps_law=constant(5)",), ("0.5", "1", "2")),
  (Arm("FedGM", "fedgm", (), MOMENTUM),),
)

CLAIMS = (
  Claim(
    "server_momentum",
    "FedGM ≥ FedAvgM > FedAvg.",
    "FedGM, Figure 1(a, b)",
    (SERVER,),
    (at_least(SERVER, "FedGM", "FedAvgM", 0.0), beats(SERVER, "FedAvgM", "FedAvg"),
     beats(SERVER, "FedGM", "FedAvg")),
    checked="FedAvgM is FedGM with ν = 1, which is tested (`test_server_step`). No method is at an end of "
    "the grid. The paper finds that FedAvgM converges faster than FedAvg but is only marginally better in "
    "testing, and that FedGM beats both. The same is seen here: FedAvgM’s mean curve reaches 75 % in "
    "round 90 and FedAvg’s in round 115; FedAvgM’s training loss over the last 100 rounds is lower in "
    "all five seeds; its test accuracy is 0.8 points higher on average and lower in one seed. FedGM is "
    "ahead of FedAvgM in all five seeds, in accuracy and in training loss. To check the part that does "
    "not hold, FedAvg and FedAvgM were run with three more seeds after the results: FedAvgM leads by "
    "0.1, 0.2 and 0.3 points, so it leads in seven of eight seeds, by 0.6 points on average. The claim "
    "was first tested on digits, where the methods were within one point and FedAvgM was at the end of "
    "an extended grid. It moved here because `stages` had shown differences between server rates; that "
    "claim ran FedGM with β = 0.7 and seeds 1 to 5, which are not used here. The paper trains a ResNet "
    "on CIFAR-10 with three local epochs for 1,000 rounds and has a finer grid, with β and ν up to "
    "0.95.",
    cause="the claim: FedAvgM’s lead over FedAvg is small, as the paper says, and misses one seed",
    presets="fedgm/figure1",
  ),
  Claim(
    "stages",
    "Staged FedGM beats each of its stages used alone.",
    "FedGM, Figure 2",
    (STAGES,),
    tuple(beats(STAGES, "stages 2, 1, 0.5", f"η = {eta}") for eta in ("2", "1", "0.5")),
    checked="Stages agree with the oracle and give the paper’s 143 and 429 rounds (`test_server_step`). "
    "η = 2 makes the curve fluctuate and fall behind, as in the paper. On digits, where this claim was first "
    "tested, η = 2 does not fluctuate, so lowering it can only hurt. This setting was chosen because the "
    "stages and η = 4, 2 and 0.5 behaved as in the paper with seed 0; the results are of other seeds.",
    presets="fedgm/figure2",
  ),
  Claim(
    "autonomous",
    "Autonomous FedGM beats Autonomous FedAvg and is close to the ideal, synchronous FedGM.",
    "FedGM, Figure 1(c, d)",
    (SHORT, IDEAL, LONG, IDEAL),
    tuple(
      look
      for panel in (SHORT, LONG)
      for look in (
        sooner(panel, "Autonomous FedGM", "Autonomous FedAvg", 0.9),
        at_least(panel, "Autonomous FedGM", "Autonomous FedAvg", 0.0),
        at_least(panel, "Autonomous FedGM", "FedGM", 0.04, at=IDEAL),
      )
    ),
    axes=("rounds", "onto") * 2,
    presets="fedgm/figure1",
  ),
)  # fmt: skip
