"""Every algorithm by name: its module, paper, rule and hyperparameters.

The records are literals and import nothing heavy, so command lines can check names without loading
TensorFlow. A test compares the hyperparameters with the builders' signatures.

    >>> ALGORITHMS["ghbm"].source
    'GHBM, eq. 6'
    >>> ALGORITHMS["ghbm"].paper
    'GHBM'
    >>> ALGORITHMS["ghbm"].hyperparameters["tau"]
    10
"""

from tff_momentum import user_code
from tff_momentum.algorithm_info import (
  REFERENCE_LINES,
  REQUIRED,
  AlgorithmInfo,
  Default,
  by_examples,
  counting,
  local,
)

__all__ = ["ALGORITHMS", "REFERENCE_LINES", "REQUIRED", "AlgorithmInfo", "Default", "info"]

_STAGES = "stages_from(1000, 3, 1.0, 0.7, 0.9)"
_QSGD: dict[str, object] = {"norm": "l2", "bucket": None}  # of all quantised algorithms
ALGORITHMS: dict[str, AlgorithmInfo] = {
  # The server's step alone: clients download x and upload Δ, or a gradient.
  "fedsgd": AlgorithmInfo(
    "fedsgd",
    "McMahan et al. 2017, sec. 2",
    "x ← x − η U(E[G(x)], s); s ← V(E[G(x)], s)",
    {"server_learning_rate": 1.0, "optimizer": "sgd", "client_weighting": "uniform"},
  ),
  "fedavg": AlgorithmInfo(
    "fedavg", "McMahan et al. 2017, Alg. 1", "x ← x − η E[Δ]", local(server_learning_rate=1.0)
  ),
  "fedprox": AlgorithmInfo(
    "fedavg",
    "FedProx, Alg. 2",
    "y ← y − η_l (g + μ(y − x))",
    local(mu=0.01, server_learning_rate=1.0),
  ),
  "fedmax": AlgorithmInfo(
    "fedmax",
    "FedMAX",
    "loss + α KL(softmax(a) ‖ uniform)",
    local(alpha=0.1, direction="forward", server_learning_rate=1.0),
  ),
  "fedavg_lm": AlgorithmInfo(
    "fedavg_lm",
    "FedGLOMO, sec. 6",
    "v ← β_l v + g; y ← y − η_l v",
    local(beta_l=0.9, server_learning_rate=1.0),
  ),
  "fedavg_glm": AlgorithmInfo(
    "fedavg_lm",
    "FedGLOMO, sec. 6",
    "fedavg_lm; m ← βm + E[Δ]; x ← x − ηm",
    local(server_learning_rate=1.0, beta=0.9, beta_l=0.9),
  ),
  "fedavgm": AlgorithmInfo(
    "fedavgm",
    "Hsu et al. 2019, sec. 3.3",
    "m ← βm + E[Δ]; x ← x − ηm",
    local(server_learning_rate=1.0, beta=0.9),
  ),
  "fedadagrad": AlgorithmInfo(
    "fedadagrad",
    "Reddi et al. 2021, Alg. 2",
    "v ← v + E[Δ]²; x ← x − η m/(√v + ε)",
    local(server_learning_rate=0.1, beta1=0.0, epsilon=1e-3, v0=None),
  ),
  "fedadam": AlgorithmInfo(
    "fedadam",
    "Reddi et al. 2021, Alg. 2",
    "v ← β₂v + (1−β₂)E[Δ]²; x ← x − η m/(√v + ε)",
    local(server_learning_rate=0.01, beta1=0.9, beta2=0.99, epsilon=1e-3, v0=None),
  ),
  "fedyogi": AlgorithmInfo(
    "fedyogi",
    "Reddi et al. 2021, Alg. 2",
    "v ← v − (1−β₂)E[Δ]² sign(v − E[Δ]²)",
    local(server_learning_rate=0.01, beta1=0.9, beta2=0.99, epsilon=1e-3, v0=None),
  ),
  "fedrmsprop": AlgorithmInfo(
    "fedadam",
    "Reddi et al. 2021, Alg. 2",
    "fedadam with β₁ = 0",
    local(server_learning_rate=0.01, beta2=0.99, epsilon=1e-3, v0=None),
  ),
  "fedgm": AlgorithmInfo(
    "fedgm",
    "FedGM, eq. 2",
    "d ← (1−β)E[Δ] + βd; x ← x − η((1−ν)E[Δ] + νd)",
    local(server_learning_rate=1.0, beta=0.9, nu=0.9),
  ),
  "fedgm_staged": AlgorithmInfo(
    "fedgm_staged", "FedGM, Alg. 3", "FedGM with (η, β, ν) by stages", local(stages=_STAGES)
  ),
  "fednag": AlgorithmInfo(
    "fedgm", "FedGM, sec. 3", "FedGM with ν = β", local(server_learning_rate=1.0, beta=0.9)
  ),
  "fedsnv": AlgorithmInfo(
    "fedsnv", "FedGM, sec. 3", "FedGM as SNV(α, β₁, β₂)", local(alpha=0.1, beta1=0.9, beta2=0.9)
  ),
  "fedpid": AlgorithmInfo(
    "fedpid",
    "FedGM, sec. 3",
    "FedGM as a PID controller (k_P, k_I, k_D)",
    local(k_p=-1.0, k_i=1.0, k_d=2.0),
  ),
  "fedasgd": AlgorithmInfo(
    "fedasgd",
    "FedGM, sec. 3",
    "FedGM as accelerated SGD (δ, κ, ξ, ε)",
    local(delta=1.0, kappa=1000.0, xi=10.0, epsilon=0.7),
  ),
  "fedtm": AlgorithmInfo(
    "fedtm", "FedGM, sec. 3", "FedGM as triple momentum (L, κ)", local(L=1.0, kappa=10.0)
  ),
  # A server statistic: clients download it with x and hold it fixed for the round (mfl's moves).
  "mime": AlgorithmInfo(
    "mime",
    "Mime, Alg. 1",
    "y ← y − η_l U(g(y) − g(x) + c, s); s ← V(E[G(x)], s)",
    local(optimizer="sgdm(0.9)"),
  ),
  "mimelite": AlgorithmInfo(
    "mimelite",
    "Mime, Alg. 1",
    "y ← y − η_l U(g(y), s); s ← V(E[G(x)], s)",
    local(optimizer="sgdm(0.9)"),
  ),
  "mimexlite": AlgorithmInfo(
    "mimelite",
    "FedGBO, sec. 5.2",
    "mimelite with g(x; b) of the first batch",
    local(optimizer="sgdm(0.9)"),
  ),
  "mime_mvr": AlgorithmInfo(
    "mime_mvr", "Mime, MimeMVR", "y ← y − η_l [a g(y) + (1−a)(m + g(y) − g(x₋))]", local(a=0.1)
  ),
  "fedgbo": AlgorithmInfo(
    "fedgbo",
    "FedGBO, Alg. 1",
    "y ← y − η_l U(g, s); s ← V(I(x, x⁺, s), s)",
    local(optimizer="sgdm(0.9, dampened=True)"),
  ),
  "mfl": AlgorithmInfo(
    "mfl",
    "MFL",
    "s ← V(g, s) at every local step; average y and s",
    local(optimizer="sgdm(0.9, dampened=True)"),
  ),
  "fedcm": AlgorithmInfo(
    "fedcm",
    "FedCM, Alg. 1",
    "y ← y − η_l (αg + (1−α)m); m ← E[Δ/(η_l K)]",
    local(alpha=0.1, server_learning_rate=1.0),
  ),
  "fedadc": AlgorithmInfo(
    "fedadc",
    "FedADC",
    "y ← y − η_l (g + β_l m/K); m ← E[Δ]/η_l + (β−β_l)m",
    local(beta=0.9, beta_l=0.9, nesterov=False, server_learning_rate=1.0),
  ),
  "ghbm": AlgorithmInfo(
    "ghbm",
    "GHBM, eq. 6",
    "y ← y − η_l g + β/(τK)(x − x₍τ₎)",
    by_examples(server_learning_rate=1.0, beta=0.9, tau=10, early="zero"),
  ),
  # Stateful clients: each keeps something from its last round for its next.
  "scaffold": AlgorithmInfo(
    "scaffold",
    "SCAFFOLD, Alg. 1",
    "y ← y − η_l (g − c_i + c)",
    counting(server_learning_rate=1.0, option="II"),
  ),
  "feddyn": AlgorithmInfo(
    "feddyn",
    "FedDyn, Alg. 1",
    "y ← y − η_l (g − g_i + α(y − x)); x ← E[y] − h/α",
    counting(alpha=0.1),
  ),
  "adabest": AlgorithmInfo(
    "adabest",
    "AdaBest, Alg. 1",
    "y ← y − η_l (g − h_i); x ← ȳ − β(ȳ₋ − ȳ)",
    local(mu=0.02, beta=0.8),
  ),
  "local_ghbm": AlgorithmInfo(
    "local_ghbm",
    "GHBM, sec. 3.4",
    "y ← y − η_l g + β/(τ_i K)(x − x_i^last)",
    by_examples(server_learning_rate=1.0, beta=0.9, tau_scaling="elapsed", participation=None),
  ),
  "fedhbm": AlgorithmInfo(
    "fedhbm",
    "GHBM, Alg. 1",
    "y ← y − η_l g + β/(τ_i K)(y − y_i^last)",
    by_examples(
      server_learning_rate=1.0,
      beta=1.0,
      tau_scaling="elapsed",
      participation=None,
      first_round="none",
    ),
  ),
  # Compressed uploads (fedcomgate's clients keep state, too).
  "fedcomgate": AlgorithmInfo(
    "fedcomgate",
    "FedCOMGATE",
    "δ_i ← δ_i + Q_i/K_i − E[Q_j/K_j]",
    local(server_learning_rate=1.0, bits=8, **_QSGD),
  ),
  "fedpaq": AlgorithmInfo(
    "fedpaq", "FedPAQ, Alg. 1", "fedavg with Q(Δ)", local(server_learning_rate=1.0, bits=8, **_QSGD)
  ),
  "fedpaq_lm": AlgorithmInfo(
    "fedpaq",
    "FedGLOMO, sec. 6",
    "fedavg_lm with Q(Δ)",
    local(beta_l=0.9, server_learning_rate=1.0, bits=8, **_QSGD),
  ),
  "fedpaq_glm": AlgorithmInfo(
    "fedpaq",
    "FedGLOMO, sec. 6",
    "fedavg_glm with Q(Δ)",
    local(beta=0.9, beta_l=0.9, server_learning_rate=1.0, bits=8, **_QSGD),
  ),
  "fedlomo": AlgorithmInfo(
    "fedlomo",
    "FedGLOMO, Alg. 4, 5",
    "v ← g(y) + v − g(y₋); x ← x − E[Q(Δ)]",
    local(bits=8, **_QSGD, first_gradient="full"),
  ),
  "fedglomo": AlgorithmInfo(
    "fedglomo",
    "FedGLOMO, Alg. 1, 2",
    "u ← βE[Q(Δ)] + (1−β)(u + E[Q(Δ − Δ̂)])",
    local(beta=0.2, bits=4, **_QSGD, first_gradient="full"),
  ),
  # Asynchronous clients: each starts from the version it sees and arrives when it is done.
  "autofedavg": AlgorithmInfo(
    "autofedgm",
    "FedGM, sec. 6.3",
    "x ← x − η E[Δ/K], each Δ from the version its client saw",
    local(server_learning_rate=1.0, max_staleness=10),
    asynchronous=True,
  ),
  "autofedgm": AlgorithmInfo(
    "autofedgm",
    "FedGM, Alg. 4",
    "autofedavg with FedGM's d and h of E[Δ/K]",
    local(server_learning_rate=1.0, beta=0.9, nu=0.9, max_staleness=10),
    asynchronous=True,
  ),
  "autofedgm_staged": AlgorithmInfo(
    "autofedgm",
    "FedGM, Alg. 4",
    "autofedgm with (η, β, ν) by stages",
    local(stages=_STAGES, max_staleness=10),
    asynchronous=True,
  ),
  # Newer methods, of all these kinds.
  "fedacg": AlgorithmInfo(
    "fedacg",
    "FedACG",
    "x̂ = x − βm; y ← y − η_l (g + μ(y − x̂)); m ← βm + E[Δ]; x ← x − m",
    local(beta=0.85, mu=0.002),
  ),
  "fednova": AlgorithmInfo(
    "fednova",
    "FedNova",
    "x ← x − η τ E[Δ/a_i], τ = E[a_i]",
    by_examples(beta_l=0.9, mu=0.0, beta=0.0, effective_steps="auto", server_learning_rate=1.0),
  ),
  "fedexp": AlgorithmInfo(
    "fedexp",
    "FedExP",
    "η = max(1, E[‖Δ‖²]/(2(‖E[Δ]‖² + ε))); x ← x − η E[Δ]",
    local(mu=0.0, epsilon=1e-3, evaluate="last"),
  ),
  "fedinit": AlgorithmInfo(
    "fedinit",
    "FedInit",
    "y ← y − η_l g, from y = x + β(x − ŷ_i); ŷ_i ← y",
    local(
      beta=0.1,
      aggregate="moves",
      first_round="initial",
      server_learning_rate=1.0,
      participation=None,
    ),
  ),
  "fedsam": AlgorithmInfo(
    "fedsam",
    "Qu et al. 2022",
    "y ← y − η_l g(y + ρg/‖g‖)",
    local(rho=0.1, server_learning_rate=1.0),
  ),
  "mofedsam": AlgorithmInfo(
    "mofedsam",
    "Qu et al. 2022",
    "y ← y − η_l (αg(y + ρg/‖g‖) + (1−α)m); m ← E[Δ/(η_l K)]",
    local(rho=0.1, alpha=0.1, server_learning_rate=1.0),
  ),
  "fedlion": AlgorithmInfo(
    "fedlion",
    "FedLion",
    "y ← y − η_l sign(β₁s + (1−β₁)g); s ← β₂s + (1−β₂)g; m ← E[s]",
    local(beta1=0.9, beta2=0.99, decoupled_weight_decay=0.0),
  ),
  "fedadamw": AlgorithmInfo(
    "fedadamw",
    "FedAdamW",
    "y ← AdamW(y; v̄) − η_l γs̄; s̄ ← E[Δ/(η_l K)]; v̄ ← E[v̄_i]",
    local(
      gamma=0.5,
      beta1=0.9,
      beta2=0.999,
      epsilon=1e-8,
      decoupled_weight_decay=0.01,
      second_moment="tensor",
      first_moment="round",
    ),
  ),
  "fedmuon": AlgorithmInfo(
    "fedmuon",
    "FedMuon",
    "y ← y − η_l((1−γ)NS₅(U) + γs̄); s̄ ← E[Δ/(η_l K)]; M ← E[M_i]",
    local(
      gamma=0.5,
      beta=0.98,
      nesterov=True,
      kappa=1.0,
      decoupled_weight_decay=0.01,
      beta1=0.9,
      beta2=0.95,
      epsilon=1e-10,
    ),
  ),
  "scaffold_m": AlgorithmInfo(
    "scaffold_m",
    "Cheng et al. 2024",
    "y ← y − η_l (α(g − c_i + c) + (1−α)m); m ← E[Δ/(η_l K)]",
    counting(alpha=0.1, server_learning_rate=1.0),
  ),
  "fedspeed": AlgorithmInfo(
    "fedspeed",
    "FedSpeed",
    "feddyn with g(y + ρg/‖g‖)",
    counting(alpha=0.1, rho=0.1, mix=1.0, climb="normalised", duals="everyone"),
  ),
  "diloco": AlgorithmInfo(
    "diloco",
    "DiLoCo",
    "AdamW at the clients; b ← βb + E[Δ]; x ← x − η(E[Δ] + βb)",
    local(
      server_learning_rate=0.7,
      beta=0.9,
      inner="adamw",
      inner_state="keep",
      beta1=0.9,
      beta2=0.95,
      epsilon=1e-8,
      decoupled_weight_decay=0.1,
    ),
  ),
}


def info(name: str) -> AlgorithmInfo:
  """Looks up an algorithm.

  Args:
    name: a key of `ALGORITHMS` or `REFERENCE_LINES`, or `package.module:builder` for a builder of the user's
      own, whose signature gives the hyperparameters. A builder that takes `max_staleness` is asynchronous.

  Raises:
    KeyError: no algorithm has this name.
    tff_momentum.user_code.UserCodeError: the user's builder cannot be found or used.

  >>> info("fedavg").source
  'McMahan et al. 2017, Alg. 1'
  """
  if not user_code.is_user_code(name):
    return REFERENCE_LINES.get(name) or ALGORITHMS[name]
  hyperparameters = user_code.parameters(name, REQUIRED)
  return AlgorithmInfo(
    module=name.partition(":")[0],
    source=name,
    rule=user_code.summary(name),
    hyperparameters=hyperparameters,
    asynchronous="max_staleness" in hyperparameters,
  )
