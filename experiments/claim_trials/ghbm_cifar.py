"""Claims of GHBM on CIFAR-10, as in the paper but with a smaller model and fewer images and rounds."""

from experiments.claim_trials.claim import Arm, Claim, Diagnostic, Panel, TrialSetting
from experiments.claim_trials.expectations import ahead, at_least, beats, close, smaller
from experiments.claim_trials.ghbm import SEEDS, TABLE7_IID, TABLE7_SKEWED

# The deviation of the momentum from the gradient of all 100 clients, and the client drift.
MEASURED = ("--diagnostics=gradient,drift", "--diagnostics_clients=100", "--diagnostics_period=50")


def _cifar(name: str, label: str, alpha: int) -> TrialSetting:
  """100 clients with 100 images each, 10 per round, 8 local steps in one epoch as in the paper."""
  return TrialSetting(
    name, f"CIFAR-10, {label}, LeNet-5", "cifar10_dirichlet",
    ("--model=lenet5", f"--alpha={alpha}", "--num_clients=100", "--clients_per_round=10",
     "--client_batch_size=13", "--client_epochs_per_round=1", "--weight_decay=0.001",
     "--rounds_per_eval=20"),
    rounds=500, grid={}, seeds=SEEDS,
  )  # fmt: skip


def _arm(label: str, algo: str, *rates: str, flags: tuple[str, ...] = ()) -> Arm:
  """A method with its client learning rate, which short runs with seed 0 chose, or a grid of rates."""
  return Arm(label, algo, flags, {"client_learning_rate": rates})


def _ghbm(tau: int, rate: str, *flags: str) -> Arm:
  return _arm(f"GHBM τ={tau}", "ghbm", rate, flags=(f"--set=tau={tau}", "--set=beta=0.9", *flags))


LOCAL = _arm("LocalGHBM", "local_ghbm", "0.01", flags=("--set=beta=0.9",))
FEDHBM = _arm("FedHBM", "fedhbm", "0.01", flags=("--set=beta=1",))

SKEWED = Panel(
  _cifar("cifar_one_class", "one class a client", 0),
  (
    _arm("FedAvg", "fedavg", "0.05", flags=MEASURED),
    _ghbm(10, "0.01", *MEASURED),
    FEDHBM,
    # 0.02 was the best in short runs, but seed 1 stayed near 10 % with it in 500 rounds.
    _arm("SCAFFOLD", "scaffold", "0.002", "0.005", "0.01"),
    LOCAL,
    _ghbm(1, "0.005", *MEASURED),  # FedCM with α = 0.1 at ten times the rate
    _ghbm(40, "0.01", *MEASURED),
    _arm("centralised", "centralised", "0.05"),
  ),
  TABLE7_SKEWED,
)
IID = Panel(
  _cifar("cifar_iid", "IID", 10_000),
  (
    _arm("FedAvg", "fedavg", "0.05"),
    _ghbm(10, "0.01"),
    FEDHBM,
    _arm("SCAFFOLD", "scaffold", "0.05"),  # no drift to correct: FedAvg's rate
  ),
  TABLE7_IID,
)
TAU = Panel(SKEWED.setting, tuple(arm for arm in SKEWED.arms if MEASURED[0] in arm.flags))
MOMENTUM = Panel(SKEWED.setting, TAU.arms[1:])
ERROR = Diagnostic(
  MOMENTUM, "‖m − g‖/‖g‖", "diagnostics/momentum_error", "diagnostics/gradient_norm"
)
DRIFT = Diagnostic(TAU, "client drift", "diagnostics/drift")

CLAIMS = (
  Claim(
    "cifar10_table",
    "On CIFAR-10 with one class per client, FedHBM ≥ LocalGHBM > SCAFFOLD > FedAvg, GHBM and FedHBM lead "
    "FedAvg by far, and τ near 1/C is better than τ = 1 because the momentum is then closer to the full "
    "gradient; IID, all are close.",
    "GHBM, Table 7, Figure 1, Lemmas 4.5 to 4.7",
    (SKEWED, IID),
    (
      at_least(SKEWED, "FedHBM", "LocalGHBM"),
      beats(SKEWED, "LocalGHBM", "SCAFFOLD"),
      beats(SKEWED, "SCAFFOLD", "FedAvg"),
      ahead(SKEWED, "GHBM τ=10", "FedAvg", 0.1),
      ahead(SKEWED, "FedHBM", "FedAvg", 0.1),
      beats(SKEWED, "GHBM τ=10", "GHBM τ=1"),
      at_least(SKEWED, "GHBM τ=40", "GHBM τ=10", 0.02),
      close(IID, [arm.label for arm in IID.arms]),
      smaller(ERROR, "GHBM τ=10", "GHBM τ=1"),
      smaller(DRIFT, "GHBM τ=10", "GHBM τ=1"),
    ),
    axes=("rounds", "levels"),
    checked="All methods agree with the oracle (`test_server_statistic`, `test_stateful_clients`). "
    "*Setting.* The paper has 797,962 parameters, 500 images a client and 20,000 rounds; here the model "
    "has 62,006, a client 100 images, and it takes part 50 times instead of 2,000. FedProx, FedDyn, "
    "AdaBest, FedCM and Mime were left out for lack of time; GHBM with τ = 1 is FedCM with another rate. "
    "Learning rates were chosen with seed 0 in short runs, which were not kept. *SCAFFOLD.* Its rate was "
    "0.02 at first, where seed 1 stayed near 10 % for 500 rounds. Three lower rates were then tuned with "
    "seed 0 over all rounds: 13.6 % at 0.002, 13.2 at 0.005, 16.0 at 0.01. So no rate from 0.002 to 0.02 "
    "is near FedAvg within 500 rounds; on Fashion-MNIST, SCAFFOLD at 0.003 leads FedAvg in the same scheme "
    "(`heterogeneity`), and in the paper by 9 points after 20,000 rounds. *IID.* At FedAvg’s rate, seed 2 "
    "of SCAFFOLD falls to 10 % in round 80 and stays there; the two other seeds are level with FedAvg, "
    "whose curve still rises at round 500, so methods are not compared after convergence, as in the paper. "
    "*Mechanism.* At these rates ‖m − g‖/‖g‖ is about 1 for every τ, because the momentum is a fortieth (τ "
    "= 1) to a three-hundredth (τ = 40) as long as the gradient of all clients at the server’s model, "
    "which each cohort pulls towards its own classes. So the lemmas’ premise, that τ rounds change the "
    "gradient little, does not hold here, and the lead of τ = 10 over τ = 1 is not explained by a smaller "
    "error. With τ = 1 that gradient is about twice as long as with τ = 10. The drift is larger with τ = "
    "10 because its rate is twice as high. At small rates the error is smaller for τ = 10 "
    "(docs/diagnostics.md).",
    cause="scale: 500 rounds instead of 20,000, in which SCAFFOLD fails at the rates tried",
    presets="ghbm/table7",
    diagnostics=(ERROR, DRIFT),
  ),
)
