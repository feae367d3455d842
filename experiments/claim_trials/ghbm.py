"""Claims of GHBM: generalised heavy-ball momentum."""

from experiments.claim_trials.claim import Arm, Claim, Panel, TrialSetting
from experiments.claim_trials.expectations import at_least, beats, cheaper, close

SEEDS = (1, 2, 3)
RATES = ("0.001", "0.003", "0.01", "0.03", "0.1", "0.3")
# Table 7, CIFAR-10 with the CNN, in % accuracy after 20,000 rounds.
TABLE7_SKEWED = {
  "FedAvg": "66.1 ± 0.3", "FedProx": "66.1 ± 0.3", "SCAFFOLD": "74.8 ± 0.2", "FedDyn": "70.9 ± 0.2",
  "AdaBest": "66.1 ± 0.3", "FedCM": "69.0 ± 0.3", "FedADC": "66.1 ± 0.3",
  "Mime": "80.9 ± 0.4", "LocalGHBM": "81.1 ± 0.3", "FedHBM": "81.7 ± 0.1", "centralised": "86.5 ± 0.2",
}  # fmt: skip
TABLE7_IID = {
  "FedAvg": "83.1 ± 0.3", "SCAFFOLD": "82.9 ± 0.2", "LocalGHBM": "83.7 ± 0.1", "FedHBM": "83.8 ± 0.1",
}  # fmt: skip


def _fashion(name: str, label: str, partition: str, rates: tuple[str, ...]) -> TrialSetting:
  """100 clients with 200 images each, 10 per round: C = 0.1, ten local steps; the paper has eight."""
  return TrialSetting(
    name, f"Fashion-MNIST, {label}, MLP", "fashion_mnist",
    (f"--partition={partition}", "--num_clients=100", "--clients_per_round=10", "--client_batch_size=20",
     "--max_examples_per_client=200", "--client_epochs_per_round=1", "--rounds_per_eval=5"),
    rounds=300, grid={"client_learning_rate": rates}, seeds=SEEDS,
  )  # fmt: skip


def _ghbm(tau: int) -> Arm:
  return Arm(f"GHBM τ={tau}", "ghbm", (f"--set=tau={tau}",))


FEDAVG, SCAFFOLD = Arm("FedAvg", "fedavg"), Arm("SCAFFOLD", "scaffold")
LOCAL = Arm("LocalGHBM", "local_ghbm")
FEDHBM = Arm("FedHBM", "fedhbm", (), {"beta": ("0.9", "1")})  # the ends of Table 6's grid
FEDCM, FEDADC, MIME = Arm("FedCM", "fedcm"), Arm("FedADC", "fedadc"), Arm("Mime", "mime")
CENTRALISED = Arm("centralised", "centralised")
CORE = (FEDAVG, SCAFFOLD, _ghbm(10), LOCAL, FEDHBM)

ONE_CLASS = _fashion("fashion_one_class", "one class a client", "similarity:0", RATES)
TAU = Panel(ONE_CLASS, (FEDAVG, FEDCM, FEDADC, *(_ghbm(tau) for tau in (1, 10, 40))))
SKEWED = Panel(
  ONE_CLASS,
  (
    FEDAVG,
    Arm("FedProx", "fedprox"),
    SCAFFOLD,
    Arm("FedDyn", "feddyn"),
    Arm("AdaBest", "adabest"),
    MIME,
    FEDCM,
    FEDADC,
    _ghbm(10),
    LOCAL,
    FEDHBM,
    CENTRALISED,
  ),
  TABLE7_SKEWED,
)
IID = Panel(_fashion("fashion_iid", "IID", "iid", RATES[2:5]), CORE, TABLE7_IID)
COST = Panel(ONE_CLASS, (*CORE, MIME))

RARE = TrialSetting(
  "rare", "digits, α = 0, 2 of 200 clients", "digits",
  ("--alpha=0", "--num_clients=200", "--clients_per_round=2", "--client_epochs_per_round=4",
   "--rounds_per_eval=5"),
  rounds=200, seeds=SEEDS,
)  # fmt: skip
FIRST = Panel(
  RARE,
  (
    FEDAVG,
    Arm("FedHBM", "fedhbm"),
    Arm("FedHBM-shared", "fedhbm", ("--set=first_round=shared",)),
    Arm("FedHBM-random", "fedhbm", ("--set=first_round=random",)),
  ),
)

CLAIMS = (
  Claim(
    "tau",
    "With one class per client and C = 10 %, GHBM with τ near 1/C beats τ = 1 (FedCM, FedADC) and "
    "FedAvg; a larger τ costs little.",
    "GHBM, Figure 1",
    (TAU,),
    (
      *(beats(TAU, "GHBM τ=10", other) for other in ("GHBM τ=1", "FedCM", "FedADC", "FedAvg")),
      at_least(TAU, "GHBM τ=40", "GHBM τ=10", 0.02),
    ),
    checked="GHBM, FedCM and FedADC agree with the float64 oracle, and GHBM satisfies its identities "
    "(`test_server_statistic`). With seed 0, GHBM with τ = 1 has 74.9 % both at 0.001, the lower end "
    "of the grid, and at 0.03: the curves fluctuate more than the rates differ. The grid was extended "
    "once, by 0.001, because SCAFFOLD and Mime were at its end. This claim was first tested on "
    "digits, where all methods but FedAvg were within one point. The figure of the momentum against "
    "the full gradient in docs/diagnostics.md shows the effect of τ directly.",
    presets="ghbm/figure1",
  ),
  Claim(
    "heterogeneity",
    "FedHBM ≥ LocalGHBM > SCAFFOLD > FedAvg if clients differ; all are close if they do not.",
    "GHBM, Tables 1 and 7, Figures 2 and 4",
    (SKEWED, IID),
    (
      at_least(SKEWED, "FedHBM", "LocalGHBM"),
      beats(SKEWED, "LocalGHBM", "SCAFFOLD"),
      beats(SKEWED, "SCAFFOLD", "FedAvg"),
      close(IID, [arm.label for arm in CORE]),
    ),
    axes=("rounds", "levels"),
    checked="All agree with the oracle, and SCAFFOLD satisfies its identities (`test_stateful_clients`). "
    "Mime is the paper’s MimeMom. FedHBM ran with β = 1 first; after a look at the results of seeds 1 to 3, "
    "β was tuned between 0.9 and 1, the ends of the paper’s grid. With seed 0, 1 is better than 0.9 at "
    "all rates up to 0.1, so the result stayed the same: FedHBM is behind LocalGHBM, and level with it "
    "on IID clients. A client takes part 30 times here and 2,000 times in the paper; whether that is "
    "the cause was not measured. Mime is at the lower end of the grid and gained half a point there. On "
    "IID clients, all methods are at the upper end of their shorter grid. Before the claim moved here "
    "from digits, where the best and the worst method were two points apart, FedAvg and FedHBM were "
    "tried at 0.03 with seed 0. A panel with α = 0.5, FedAvgM, and GHBM with τ = 5 and 20 were left out "
    "for lack of time, before any of their results were seen but some of FedAvg’s and FedCM’s.",
    cause="scale: FedHBM is behind LocalGHBM where a client takes part 30 times, not 2,000",
    presets="ghbm/table7",
  ),
  Claim(
    "cost",
    "FedHBM and GHBM reach FedAvg’s final accuracy with far fewer bytes and far less training time than "
    "FedAvg; Mime needs more bytes.",
    "GHBM, Table 3",
    (COST,),
    (
      *(
        cheaper(COST, method, "FedAvg", what, 0.5, whole=True)
        for method in ("FedHBM", "GHBM τ=10")
        for what in ("bytes", "seconds")
      ),
      cheaper(COST, "Mime", "FedAvg", "bytes", 1.0, whole=True),
    ),
    axes=("bytes",),
    checked="Costs are counted as in the paper’s appendix C.3: a method’s costs until its mean curve first "
    "reaches FedAvg’s final accuracy, against those of FedAvg’s whole training. An earlier form of this "
    "claim charged FedAvg only until its own curve, which fluctuates by several points, first touched that "
    "accuracy, in round 140 of 300; FedHBM then needed 0.61 of FedAvg’s bytes and GHBM 0.91. The rule was "
    "changed after these results, because the paper states it. By its message types, GHBM sends 1.5 times "
    "FedAvg’s bytes per round. Rounds are counted in steps of five, the interval between evaluations. Times "
    "were measured beside other work.",
    presets="ghbm/table3",
  ),
  Claim(
    "first_round",
    "If a client participates only twice in total, FedHBM regains its acceleration by starting from the "
    "initial model (shared) or from a random model of the client’s own (random).",
    "GHBM, Figure 5",
    (FIRST,),
    (
      beats(FIRST, "FedHBM-shared", "FedHBM"),
      beats(FIRST, "FedHBM-random", "FedHBM"),
      beats(FIRST, "FedHBM-shared", "FedAvg"),
    ),
    checked="The three kinds of first round agree with the oracle (`test_stateful_clients`). No method "
    "is at an end of the grid. The head start exists but does not last: after a tenth of the rounds "
    "(`--quick`), shared leads FedHBM by eight points; at the end it is behind (x − x⁰ may no longer be "
    "a descent direction; not measured). The paper’s model has 4 million parameters instead of 4,810, "
    "and its clients participate 1.5 times on average.",
    cause="scale: on a model of 4,810 parameters, the head start is gone before the end",
    presets="ghbm/table2",
  ),
)
