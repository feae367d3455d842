"""Claims of the FedGBO paper: its global biased optimizer, server-side optimizers, and Mime."""

from experiments.claim_trials.expectations import any_of, beats, best_differs, cheaper
from experiments.claim_trials.protocol import Arm, Claim, Panel, TrialSetting

OPTIMIZERS = {
  "SGDm": "sgdm(0.9, dampened=True)",
  "RMSProp": "rmsprop(0.9)",
  "Adam": "adam(0.9, 0.99)",
}

# Adaptive optimizers' steps and those of undampened momentum are many times as long as SGD's.
RATES = ("0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1")
# 836 real writers, about 72 images each, of whom 10 take part in a round with one epoch.
EMNIST = TrialSetting(
  "emnist", "EMNIST digits by writer, 2NN", "emnist_digits",
  ("--model=2nn", "--rounds_per_eval=4", "--diagnostics=flops", "--diagnostics_period=40"), rounds=80,
  grid={"client_learning_rate": RATES},
)  # fmt: skip
# Bags of 10,000 words, most of them absent; 699 users.
TAGS = TrialSetting(
  "tags", "Stack Exchange tags by user, logistic", "stackoverflow_tag",
  ("--rounds_per_eval=2", "--diagnostics=flops", "--diagnostics_period=10"), rounds=20,
  grid={"client_learning_rate": ("0.01", "0.1", "1", "10", "100")},
)  # fmt: skip
FEDAVG = Arm("FedAvg", "fedavg")


def _arm(family: str, algo: str, optimizer: str) -> Arm:
  return Arm(f"{family} {optimizer}", algo, (f"--set=optimizer={OPTIMIZERS[optimizer]}",))


GBO = tuple(_arm("FedGBO", "fedgbo", optimizer) for optimizer in OPTIMIZERS)
LITE = tuple(_arm("MimeLite", "mimelite", optimizer) for optimizer in ("SGDm", "Adam"))
XLITE = tuple(_arm("MimeXlite", "mimexlite", optimizer) for optimizer in ("SGDm", "Adam"))
WRITERS = Panel(EMNIST, (FEDAVG, *GBO, *LITE))
SPARSE = Panel(TAGS, (FEDAVG, *GBO))
VARIANTS = Panel(EMNIST, (*GBO, *LITE, *XLITE))
NAMES = [arm.label for arm in GBO]

SERVER_ONLY = Arm(
  "server-only SGDm", "fedsgd", ("--set=optimizer=sgdm(0.9)",),
  {"server_learning_rate": RATES},
)  # fmt: skip
MIME = Panel(
  EMNIST,
  (
    FEDAVG,
    Arm("FedAvgM", "fedavgm"),
    Arm("Mime SGDm", "mime", ("--set=optimizer=sgdm(0.9)",)),
    Arm("MimeLite SGDm (undampened)", "mimelite", ("--set=optimizer=sgdm(0.9)",)),
    SERVER_ONLY,
  ),
)

ADAPTIVE = Panel(
  TrialSetting(
    "adaptive", "EMNIST digits by writer, 2NN", "emnist_digits",
    ("--model=2nn", "--rounds_per_eval=4"), rounds=40,
    grid={"client_learning_rate": ("0.03", "0.1", "0.3"), "server_learning_rate": ("0.01", "0.1", "1", "3")},
  ),
  tuple(
    Arm(label, algo)
    for label, algo in (("FedAvg", "fedavg"), ("FedAvgM", "fedavgm"), ("FedAdam", "fedadam"),
                        ("FedYogi", "fedyogi"))
  ),
)  # fmt: skip

CLAIMS = (
  Claim(
    "biased_optimizer",
    "FedGBO is ahead in accuracy per uploaded byte and per FLOP; no optimizer is the best everywhere; on "
    "sparse features RMSProp and Adam are.",
    "FedGBO, Figures 2 and 3, Table 4",
    (WRITERS, SPARSE),
    (
      *(
        cheaper(WRITERS, "FedGBO SGDm", other, what, 0.999)
        for other in ("FedAvg", "MimeLite SGDm")
        for what in ("upload", "flops")
      ),
      best_differs((WRITERS, SPARSE), NAMES),
      any_of(*(beats(SPARSE, name, "FedGBO SGDm") for name in NAMES[1:])),
    ),
    axes=("upload", "upload"),
    checked="FedGBO agrees with the oracle with each optimizer (`test_family_b`). Tags cannot decide it: at "
    "the two lowest rates all four methods have the same recall to seven digits (26.36 % with seed "
    "0), presumably that of the five most frequent tags for every user, and at no rate more than 28.1 "
    "%. So 20 rounds of this subset teach nothing else, and the last part, as well as which optimizer "
    "is the best there, is untested rather than refuted. On EMNIST, RMSProp is far behind at every "
    "rate from 0.001 to 1: probably since it divides by the mean of the clients’ gradients, near zero "
    "for many weights (not measured).",
    presets="fedgbo/table4",
  ),
  Claim(
    "mimexlite",
    "MimeXlite with SGDm or Adam falls well behind MimeLite and FedGBO.",
    "FedGBO, Table 5",
    (VARIANTS,),
    tuple(
      beats(VARIANTS, f"{family} {optimizer}", f"MimeXlite {optimizer}")
      for optimizer in ("SGDm", "Adam")
      for family in ("MimeLite", "FedGBO")
    ),
    presets="fedgbo/table5",
  ),
  Claim(
    "mime",
    "Mime and MimeLite beat FedAvg with the same optimizer at the server, and that optimizer without local "
    "steps.",
    "SCAFFOLD, Figure 3",
    (MIME,),
    tuple(
      beats(MIME, method, other)
      for method in ("Mime SGDm", "MimeLite SGDm (undampened)")
      for other in ("FedAvgM", "server-only SGDm")
    ),
    checked="All agree with the oracle (`test_family_a`, `test_family_b`), and Mime with one local step and "
    "everybody is tested to equal server-only SGDm. In the first pass, with rates from 0.01, all "
    "methods with momentum were at the lower end and no part was seen; with rates from 0.001 none is "
    "at an end, Mime gains 2 and MimeLite 9 points, and Mime passes server-only SGDm. FedAvgM’s lead "
    "over Mime is 1.5 points at a spread of 1.1 between seeds. It has 80 rounds of a dense model "
    "here; the paper’s figure has a convolutional one and over a thousand.",
    presets="scaffold_mime/mime_figure3",
  ),
  Claim(
    "adaptive",
    "FedAvgM, FedAdam and FedYogi are ahead of FedAvg.",
    "the FedGBO paper; Reddi et al. 2021",
    (ADAPTIVE,),
    tuple(beats(ADAPTIVE, method, "FedAvg") for method in ("FedAvgM", "FedAdam", "FedYogi")),
    presets="adaptive/tuned",
  ),
)
