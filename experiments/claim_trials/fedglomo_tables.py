"""FedGLOMO's Tables 2 and 3, the columns on Fashion-MNIST.

Our copy of the paper lacks appendix E, which has the rates, momenta, rounds and schedules. These rules take
its place. The rate falls to zero along half a cosine. The number of rounds is that at which FedPAQ-lm reaches
its printed error with seed 0. Each method's first rate is the best of the one to three that were tried with
seed 0.

"heavy ball" is not in the tables. It tests a reading that would explain FedGLOMO's numbers: without the
differences of gradients, FedGLOMO's two recursions are heavy-ball momentum with 1 − β = 0.8 at the clients
and at the server. Its number in the paper's column is FedGLOMO's.
"""

from experiments.claim_trials.claim import Arm, Claim, Panel, TrialSetting
from experiments.claim_trials.expectations import as_printed, cheaper, ranked_as_printed

ROUNDS = 150
POINTS = 0.015  # how far a result may be from the printed one
# Both tables print errors: the accuracy is 100 − error.
TABLE2_TWO_CLASSES = {
  "FedPAQ-lm": "83.83 ± 0.53", "FedPAQ-glm": "84.13 ± 1.10", "FedLOMO": "81.05 ± 0.19",
  "FedGLOMO 2 bit": "86.45 ± 0.32", "FedCOMGATE": "84.68 ± 0.09", "heavy ball": "86.45 ± 0.32",
}  # fmt: skip
TABLE2_IID = {
  "FedPAQ-lm": "86.92 ± 0.05", "FedPAQ-glm": "88.24 ± 0.06", "FedLOMO": "85.78 ± 0.01",
  "FedGLOMO 2 bit": "89.02 ± 0.05", "heavy ball": "89.02 ± 0.05",
}  # fmt: skip
TABLE3 = {
  "FedAvg-glm": "83.83 ± 0.53", "MimeSGDm": "86.66 ± 0.25", "FedGLOMO": "86.52 ± 0.26",
}  # fmt: skip


def _setting(name: str, label: str, partition: str) -> TrialSetting:
  """25 of 50 clients take ten local steps, as in the paper, on batches of 64 instead of 256."""
  return TrialSetting(
    name, f"Fashion-MNIST, {label}, 25 of 50", "fashion_mnist",
    (f"--partition={partition}", "--num_clients=50", "--clients_per_round=25",
     "--client_steps_per_round=10", "--client_batch_size=64", "--weight_decay=0.0001",
     "--rounds_per_eval=1"),
    rounds=ROUNDS, grid={}, last_rounds=5,
  )  # fmt: skip


def _arm(label: str, algo: str, rate: float, *flags: str) -> Arm:
  schedule = f"cosine({rate:g}, rounds={ROUNDS})"
  return Arm(label, algo, flags, {"client_learning_rate": (schedule,)})


def _qsgd(bits: int) -> tuple[str, ...]:
  """QSGD with the buckets of its own paper; FedGLOMO's paper does not print the norm."""
  return (f"--set=bits={bits}", "--set=norm=max", "--set=bucket=512")


BATCH = "--set=first_gradient=batch"  # sec. 6 replaces full gradients by those of a batch
ALPHA = ("--diagnostics=alpha", "--diagnostics_period=30")

LM = _arm("FedPAQ-lm", "fedpaq_lm", 0.05, *_qsgd(4))
GLM = _arm("FedPAQ-glm", "fedpaq_glm", 0.01, *_qsgd(4))
COMGATE = _arm("FedCOMGATE", "fedcomgate", 0.08, *_qsgd(4))
LOMO = _arm("FedLOMO", "fedlomo", 0.1, *_qsgd(4), BATCH)
GLOMO_2_BIT = _arm("FedGLOMO 2 bit", "fedglomo", 0.1, *_qsgd(2), BATCH, *ALPHA)
GLOMO = _arm("FedGLOMO", "fedglomo", 0.1, "--set=bits=32", BATCH)
MIME = _arm("MimeSGDm", "mime", 0.02, "--set=optimizer=sgdm(0.9)")
AVG_GLM = _arm("FedAvg-glm", "fedavg_glm", 0.01)
HEAVY = _arm("heavy ball", "fedpaq_glm", 0.06, *_qsgd(4), "--set=beta=0.8", "--set=beta_l=0.8")

TWO_CLASSES = _setting("glomo_two_classes", "two classes", "classes:2")
COMPRESSED = Panel(TWO_CLASSES, (LM, GLM, COMGATE, GLOMO_2_BIT, LOMO, HEAVY), TABLE2_TWO_CLASSES)
IID = Panel(_setting("glomo_iid", "IID", "iid"), (LM, GLM, LOMO, GLOMO_2_BIT, HEAVY), TABLE2_IID)
PLAIN = Panel(TWO_CLASSES, (AVG_GLM, MIME, GLOMO), TABLE3)
PANELS = (COMPRESSED, IID, PLAIN)  # runs start in this order


def _printed_methods(panel: Panel) -> list[str]:
  return [arm.label for arm in panel.arms if arm is not HEAVY]


CHECKED = (
  "The paper’s rates, momenta, rounds and schedules are in its appendix E, which our copy lacks. Ours were "
  "chosen with seed 0, in this order; all numbers here are test errors. FedPAQ-lm has 20.8 % from the rate "
  "0.02 and 19.6 % from 0.05 after 60 rounds, and 16.3 % from 0.05 after 150 rounds (with batches of 32); "
  "hence 0.05 and 150 rounds. Batches have 64 examples instead of 256 to save time: after 60 rounds, "
  "FedPAQ-lm has 19.6 % with both. FedLOMO and FedGLOMO were not compared between batch sizes. The other "
  "methods were tried in 60 rounds, at one to three rates. FedGLOMO without compression diverges from 0.3 "
  "with batches of 256 and of 32, and from 0.2 with batches of 32; from 0.1 it has 23.7 %, from 0.05 24.8 "
  "% in round 40, where the run was stopped. With 2 bits it has 23.2 % from 0.1. FedLOMO has 22.6 % from "
  "0.1 without compression. FedCOMGATE diverges from 0.1 with batches of 32 and has 20.3 % from 0.05. "
  "FedPAQ-glm has 21.2 % from 0.005, a tenth of FedPAQ-lm’s rate. MimeSGDm has 19.2 % from 0.02 with "
  "batches of 32. FedAvg-glm and the IID setting were not tried; they use the same rates. Compression does "
  "not explain FedGLOMO’s error: after 60 rounds, 2 bits and no compression are half a point apart. After "
  "the first runs of seed 1 had shown FedGLOMO behind FedPAQ-lm, constant rates were tried with seed 0 in "
  "60 rounds. The mean errors of rounds 31 to 60 are 27.2 % for FedGLOMO with 2 bits and 30.2 % for "
  "FedLOMO, both at 0.03, and 30.4 % and 30.3 % for FedPAQ-lm at 0.01 and 0.003; from one round to the "
  "next, the error changes by 2.0, 3.3, 4.2 and 3.2 points on average. In the last five rounds the errors "
  "are 26.7, 29.5, 32.4 and 27.3 %. At these constant rates FedGLOMO fluctuates less and leads, by 0.6 "
  "points over FedPAQ-lm’s better rate in the last five rounds; at a constant 0.1, tried before and "
  "without compression, it stayed at about 45 % until round 45, where the run was stopped. A rate that "
  "falls to zero removes the fluctuation of all methods, and FedGLOMO is behind FedPAQ-lm by 3.6 points "
  "after 60 rounds. So the ranking depends on the schedule; this rests on one seed and explains the order, "
  "not the size of the difference from the printed error. A lower rate helps FedGLOMO little: from 0.05, "
  "with 2 bits and seed 0, it had 19.8 % in rounds 145 to 149 of 150, where the run was stopped; 0.1 "
  "stayed because this came after the runs of seed 1. Whether FedGLOMO reaches its printed error in more "
  "rounds was not measured. Table 3 prints the numbers of Table 2’s FedPAQ-lm for FedAvg-glm, 16.17 ± "
  "0.53. α/n is in the runs of FedGLOMO with 2 bits."
)

CLAIMS = (
  Claim(
    "fedglomo_tables",
    "With the same number of bits per round, FedGLOMO has a lower error than FedPAQ-lm, FedPAQ-glm, FedLOMO "
    "and FedCOMGATE; without compression it is on par with MimeSGDm, and both beat FedAvg-glm.",
    "FedGLOMO, Tables 2 and 3",
    PANELS,
    (
      *(as_printed(panel, arm.label, POINTS) for panel in PANELS for arm in panel.arms),
      *(ranked_as_printed(panel, _printed_methods(panel)) for panel in PANELS),
      cheaper(COMPRESSED, "FedGLOMO 2 bit", "FedPAQ-lm", "upload", 0.5, whole=True),
      cheaper(COMPRESSED, "FedGLOMO 2 bit", "FedPAQ-glm", "upload", 0.5, whole=True),
    ),
    axes=("upload", "upload", "rounds"),
    checked=CHECKED,
    presets="fedglomo/figure1",
  ),
)
