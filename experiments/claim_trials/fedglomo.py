"""FedGLOMO's Tables 2 and 3, the columns on Fashion-MNIST.

Our copy of the paper lacks appendix E, which has the rates, momenta, rounds and schedules. These rules take
its place. The rate falls to zero along half a cosine. The number of rounds is that at which FedPAQ-lm reaches
its printed error with seed 0. Each method's first rate is the best of the one to three that were tried with
seed 0.

"heavy ball" is not in the tables. It tests a reading that would explain FedGLOMO's numbers: without the
differences of gradients, FedGLOMO's two recursions are heavy-ball momentum with 1 − β = 0.8 at the clients
and at the server. Its number in the paper's column is FedGLOMO's.
"""

from experiments.claim_trials.claim import Arm, Claim, Diagnostic, Panel, TrialSetting
from experiments.claim_trials.expectations import as_printed, below, cheaper, ranked_as_printed

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
COMGATE = _arm("FedCOMGATE", "fedcomgate", 0.05, *_qsgd(4))
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
# Figure 3: α/n stays below 0.06 for most rounds, and below 0.02 if clients are alike.
ALPHAS = tuple(
  Diagnostic(Panel(setting, (GLOMO_2_BIT,)), "α/n", "diagnostics/alpha_per_client")
  for setting in (TWO_CLASSES, IID.setting)
)


def _printed_methods(panel: Panel) -> list[str]:
  return [arm.label for arm in panel.arms if arm is not HEAVY]


CHECKED = (
  "All methods agree with the oracle (`test_compressed_uploads`, `test_server_statistic`); FedGLOMO and "
  "FedLOMO agree with each other on a constant cohort, as they must. All numbers below are test errors. "
  "*Choices.* They were made with seed 0, without compression where none is named. FedPAQ-lm has 20.8 % "
  "from the rate 0.02 and 19.6 % from 0.05 after 60 rounds, and 16.3 % from 0.05 after 150 rounds: hence "
  "0.05 and 150 rounds. Batches have 64 examples instead of 256 to save time; FedPAQ-lm has 19.6 % after "
  "60 rounds with both. QSGD has the buckets of its own paper: 2 bits and no compression are half a point "
  "apart for FedGLOMO after 60 rounds. FedPAQ-glm and FedAvg-glm ran with seed 1 at 0.005 first (16.8 and "
  "16.6 %); 0.01 was chosen afterwards with seed 0. FedCOMGATE was chosen at 0.08 with seed 0 as well; it "
  "has 17.0 % there with seed 1 but diverges with seed 2, so its first rate, 0.05, counts. MimeSGDm fails "
  "at 0.04. FedLOMO has 22.6 % from 0.1 after 60 rounds. FedGLOMO has 23.7 % from 0.1 after 60 rounds and "
  "19.8 % from 0.05 after 150, and diverges from 0.3. The heavy ball has 14.4 % from 0.03 and from 0.06 "
  "after 150 rounds, and, with IID clients, 12.2 and 11.3 %. *Why FedGLOMO misses its numbers.* With IID "
  "clients, a cohort’s mean is almost that of all clients, and the error depends on how far a method "
  "moves. FedAvg-lm at a constant 0.03 (seed 0) passes FedLOMO’s printed 14.2 % in round 105, FedPAQ-lm’s "
  "13.1 % in round 165, FedPAQ-glm’s 11.8 % in round 345, and has 11.4 % in round 385. So FedGLOMO’s "
  "printed 11.0 % needs about four times FedLOMO’s steps or more. By its rule, FedGLOMO moves like FedLOMO "
  "at the same rate, and our two runs agree to half a point. Nor does it allow higher rates: at 0.3, IID, "
  "it diverges in round 14, and FedLOMO does not. Without the differences of gradients, its recursions are "
  "a heavy ball with 0.8 at the clients and at the server, which moves about 16 times as far at the same "
  "rate. That comes within 1.5 points of FedGLOMO’s printed error in both settings. Public code of one of "
  "the authors has the factor 0.8 in the local recursion, where the paper prints 1; with it, and with the "
  "differences, FedGLOMO has 22.9 % instead of 23.7 % after 60 rounds (tried in a changed copy). We do not "
  "know which code made the tables. Table 3 prints the numbers of Table 2’s FedPAQ-lm for FedAvg-glm, "
  "16.17 ± 0.53."
)

CLAIMS = (
  Claim(
    "fedglomo_tables",
    "With the same number of bits per round, FedGLOMO has a lower error than FedPAQ-lm, FedPAQ-glm, FedLOMO "
    "and FedCOMGATE; without compression it is on par with MimeSGDm, and both beat FedAvg-glm.",
    "FedGLOMO, Tables 2 and 3, Figures 1 to 3",
    PANELS,
    (
      *(as_printed(panel, arm.label, POINTS) for panel in PANELS for arm in panel.arms),
      *(ranked_as_printed(panel, _printed_methods(panel)) for panel in PANELS),
      cheaper(COMPRESSED, "FedGLOMO 2 bit", "FedPAQ-lm", "upload", 0.5, whole=True),
      cheaper(COMPRESSED, "FedGLOMO 2 bit", "FedPAQ-glm", "upload", 0.5, whole=True),
      cheaper(COMPRESSED, "heavy ball", "FedPAQ-lm", "upload", 0.5, whole=True),
      cheaper(COMPRESSED, "heavy ball", "FedPAQ-glm", "upload", 0.5, whole=True),
      *(
        below(alpha, GLOMO_2_BIT.label, bound)
        for alpha, bound in zip(ALPHAS, (0.06, 0.02), strict=True)
      ),
    ),
    axes=("upload", "upload", "rounds"),
    checked=CHECKED,
    cause="the claim: FedGLOMO as printed misses its numbers; a heavy ball in its place reaches them",
    presets="fedglomo",
    diagnostics=ALPHAS,
  ),
)
