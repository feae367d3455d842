"""Claims of FedGBO on its global biased optimizer, on server-side optimizers, and of Mime."""

from collections.abc import Mapping

from experiments.claim_trials.claim import Arm, Claim, Panel, TrialSetting
from experiments.claim_trials.expectations import any_of, beats, best_differs, cheaper, close

OPTIMIZERS = {
  "SGDm": "sgdm(0.9, dampened=True)",
  "RMSProp": "rmsprop(0.9)",
  "Adam": "adam(0.9, 0.99)",
}

# Steps of adaptive optimizers and of undampened momentum are many times as long as those of SGD.
RATES = ("0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1")
# 836 real writers with about 72 images each; 10 of them participate in a round, with one local epoch.
EMNIST = TrialSetting(
  "emnist", "EMNIST digits by writer, 2NN", "emnist_digits",
  ("--model=2nn", "--rounds_per_eval=4", "--diagnostics=flops", "--diagnostics_period=40"), rounds=80,
  grid={"client_learning_rate": RATES},
)  # fmt: skip
# Sparse bags of 10,000 words; 699 users.
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

# FedGBO, Section 5: a linear model of 5,000 words, K = 10 steps on batches of 8; here 100 tags instead of two
# sentiments. The paper trains for 5,000 rounds with v0 = 1. v shrinks from v0 by 0.99 a round, so with v0 = 1
# Adam would still be close to SGDm after 200 rounds; v0 = 0.0001 is what is left of 1 after about 900 rounds.
BAGS = TrialSetting(
  "tags_long", "Stack Exchange tags by user, 5,000 words, logistic", "stackoverflow_tag",
  ("--task_set=vocabulary_size=5000", "--task_set=num_tags=100", "--clients_per_round=10",
   "--client_steps_per_round=10", "--client_batch_size=8", "--rounds_per_eval=10"),
  rounds=200, grid={},
)  # fmt: skip
PLAIN = {"client_learning_rate": ("1", "3", "10", "30", "100")}
# With seed 0, SGDm was best at the upper end, 100; its grid was extended once, before runs of other seeds.
EXTENDED = {"client_learning_rate": (*PLAIN["client_learning_rate"], "300", "1000")}
# Steps of adaptive optimizers are divided by √v, which starts at 0.01.
DIVIDED = {"client_learning_rate": ("0.003", "0.01", "0.03", "0.1", "0.3", "1")}


def _long(name: str, optimizer: str, rates: Mapping[str, tuple[str, ...]]) -> Arm:
  return Arm(f"FedGBO {name}", "fedgbo", (f"--set=optimizer={optimizer}",), rates)


LONG = Panel(
  BAGS,
  (
    Arm("FedAvg", "fedavg", (), PLAIN),
    _long("SGDm", OPTIMIZERS["SGDm"], EXTENDED),
    _long("RMSProp", "rmsprop(0.9, v0=0.0001)", DIVIDED),
    _long("Adam", "adam(0.9, 0.99, v0=0.0001)", DIVIDED),
    Arm("centralised", "centralised", (), PLAIN),
  ),
)

# None of these seeds had been run when this was written.
LONG_EMNIST = TrialSetting(
  "emnist_long", "EMNIST digits by writer, 2NN", "emnist_digits", ("--model=2nn", "--rounds_per_eval=10"),
  rounds=300, grid={}, seeds=(11, 12, 13),
)  # fmt: skip


def _around(label: str, algo: str, *rates: str, which: str = "client_learning_rate") -> Arm:
  """A method with three rates; the middle one was the best of seven after 80 rounds.

  With seed 0, the upper end was best for some; they got the next rate, before the runs of other seeds.
  """
  optimizer = ("--set=optimizer=sgdm(0.9)",) if algo in ("mime", "mimelite", "fedsgd") else ()
  return Arm(label, algo, optimizer, {which: rates})


MIME = Panel(
  LONG_EMNIST,
  (
    _around("FedAvgM", "fedavgm", "0.003", "0.01", "0.03", "0.1"),
    _around("Mime SGDm", "mime", "0.001", "0.003", "0.01", "0.03"),
    _around("MimeLite SGDm (undampened)", "mimelite", "0.001", "0.003", "0.01"),
    _around(
      "server-only SGDm", "fedsgd", "0.003", "0.01", "0.03", "0.1", which="server_learning_rate"
    ),
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
    "FedGBO leads in accuracy per uploaded byte and per FLOP; no optimizer is best everywhere; on sparse "
    "features, RMSProp and Adam are best.",
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
    checked="FedGBO agrees with the oracle for each optimizer (`test_server_statistic`). The tags cannot "
    "decide the last part: at the two lowest rates, all four methods have the same recall to seven "
    "digits (26.36 % with seed 0), presumably that of predicting the five most frequent tags for every "
    "user, and no rate gives more than 28.1 %. So 20 rounds on this subset teach nothing else. The last "
    "part, and which optimizer is best there, is therefore untested rather than refuted. On EMNIST, "
    "RMSProp is far behind at every rate from 0.001 to 1, probably because it divides by the mean of the "
    "clients’ gradients, which is near zero for many weights (not measured).",
    cause="rounds: 20 do not decide its last part, which sparse_features tests in 200",
    presets="fedgbo/table4",
  ),
  Claim(
    "sparse_features",
    "On sparse features, FedGBO with RMSProp and with Adam is best, and FedGBO with SGDm improves little on "
    "FedAvg.",
    "FedGBO, Figure 2, Section 5.1",
    (LONG,),
    (
      *(
        beats(LONG, method, other)
        for method in ("FedGBO RMSProp", "FedGBO Adam")
        for other in ("FedGBO SGDm", "FedAvg")
      ),
      close(LONG, ["FedAvg", "FedGBO SGDm"]),
    ),
    checked="FedGBO agrees with the oracle for each optimizer (`test_server_statistic`). Rates of adaptive "
    "optimizers are smaller, because their steps are divided by √v. With seed 0, SGDm was at the "
    "upper end of its grid, 100; 300 and 1000 were added before the runs of other seeds, and 100 "
    "stayed the best. No method is at an end. RMSProp is behind SGDm in recall. As a check, β = 0.99 "
    "instead of 0.9 was run with seed 0 after the results: its recall is 35.2 % at rate 0.1 and 31.0 "
    "% at 0.3, against 45.9 and 45.0 %, and lower rates were not run with it, so β = 0.99 is not "
    "excluded. By the test loss, which the rates were not tuned for, Adam and RMSProp are best: Adam "
    "8.7, RMSProp 9.2, FedAvg 9.9, SGDm 10.4, with RMSProp ahead of SGDm in all three seeds. SGDm "
    "improves on FedAvg by 14 points, not by little. As a check, FedAvg was run for 1,000 rounds with "
    "seed 0 after the results: it learns slowly and reaches about 40 % (mean of the evaluations from "
    "round 800 on). So the gap may be smaller after the paper’s 5,000 rounds; SGDm was not run for "
    "that long. The recall of all methods still rises at the end. The centralised line computes as "
    "many gradients, but in 100 successive steps per round. The paper’s task is the sentiment of "
    "tweets, with two classes and 21,876 users; v starts at 1 there, and β is tuned. Here v starts at "
    "0.0001, for the reason given in `fedgbo.py`. This is the last part of `biased_optimizer`, which "
    "20 rounds could not decide. Its setting was changed to 200 rounds, ten local steps on batches of "
    "8 as in the paper, 5,000 words as in the paper, and the 100 most frequent tags. Before the grid "
    "was fixed, only the run time was measured, with 12 rounds.",
    cause="the claim: SGDm gains as well, and RMSProp leads it in loss but not in recall",
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
    "Mime and MimeLite beat FedAvg with the same optimizer at the server, and beat that optimizer "
    "without local steps.",
    "Mime, Figure 3",
    (MIME,),
    tuple(
      beats(MIME, method, other)
      for method in ("Mime SGDm", "MimeLite SGDm (undampened)")
      for other in ("FedAvgM", "server-only SGDm")
    ),
    checked="All agree with the oracle (`test_server_step`, `test_server_statistic`), and a test shows that "
    "Mime with one local step and full participation equals server-only SGDm. The claim was first "
    "tested with 80 rounds and seven rates; FedAvgM led Mime by 1.5 points and was ahead in two of "
    "three seeds. With 300 rounds it leads by 1.9 points and in every seed, so 300 rounds do not "
    "remove its lead. Here each method has three rates around its best one of the first test, not one "
    "grid for all. With seed 0, FedAvgM, Mime and server-only SGDm were at the upper end and got the "
    "next rate before the runs of other seeds; no method is at an end now. Plain FedAvg, which no "
    "part compares, was left out before the runs for lack of time. Two checks were run after the "
    "results, with seed 0. The grid is not too coarse for Mime: at 0.015, between its best rate and "
    "the first one that fails, it has 65.6 %. More local work showed no advantage for it: with five "
    "local epochs and 100 rounds, FedAvgM has 91.3 % (best of three rates) and Mime 82.5 % (at 0.001, "
    "the lower of two rates; still lower ones were not run). Server-only SGDm fluctuates by tens of "
    "points up to round 120, but not in the rounds that count. The paper’s figure has 62 classes and "
    "over a thousand rounds; here a dense model classifies ten digits of 836 writers. Whether the "
    "model or the number of classes is the cause was not measured.",
    cause="the claim: on this task FedAvgM leads, and its lead grows with the rounds",
    presets="scaffold_mime/mime_figure3",
  ),
  Claim(
    "adaptive",
    "FedAvgM, FedAdam and FedYogi beat FedAvg.",
    "FedGBO; Reddi et al. 2021",
    (ADAPTIVE,),
    tuple(beats(ADAPTIVE, method, "FedAvg") for method in ("FedAvgM", "FedAdam", "FedYogi")),
    presets="adaptive/tuned",
  ),
)
