"""All algorithms by name. Importing this imports nothing heavy, so that a wrong name is answered at once."""

from typing import NamedTuple


class Entry(NamedTuple):
  """Where an algorithm is written, where it comes from, its rule in one line, and if it is asynchronous."""

  module: str
  paper: str
  rule: str
  asynchronous: bool = False


ALGORITHMS: dict[str, Entry] = {
  "fedsgd": Entry("fedsgd", "Mime", "x ← x − η U(E[G(x)], s); s ← V(E[G(x)], s)"),
  "fedavg": Entry("fedavg", "McMahan 2017", "x ← x − η E[Δ]"),
  "fedprox": Entry("fedavg", "Li 2020", "y ← y − η_l (g + μ(y − x))"),
  "fedmax": Entry("fedmax", "Chen 2020", "loss + α KL(softmax(a) ‖ uniform)"),
  "fedavg_lm": Entry("fedavg_lm", "FedGLOMO", "v ← β_l v + g; y ← y − η_l v"),
  "fedavg_glm": Entry("fedavg_lm", "FedGLOMO", "fedavg_lm; m ← βm + E[Δ]; x ← x − ηm"),
  "fedavgm": Entry("fedgm", "Hsu 2019", "m ← βm + E[Δ]; x ← x − ηm"),
  "fedadagrad": Entry("adaptive", "Reddi 2021 Alg. 2", "v ← v + E[Δ]²; x ← x − η m/(√v + ε)"),
  "fedadam": Entry("fedadam", "Reddi 2021 Alg. 2", "v ← β₂v + (1−β₂)E[Δ]²; x ← x − η m/(√v + ε)"),
  "fedyogi": Entry("adaptive", "Reddi 2021 Alg. 2", "v ← v − (1−β₂)E[Δ]² sign(v − E[Δ]²)"),
  "fedrmsprop": Entry("fedadam", "Reddi 2021 Alg. 2", "fedadam with β₁ = 0"),
  "fedgm": Entry("fedgm", "FedGM eq. 2", "d ← (1−β)E[Δ] + βd; x ← x − η((1−ν)E[Δ] + νd)"),
  "fedgm_staged": Entry("fedgm_stages", "FedGM Alg. 3", "FedGM with (η, β, ν) by stages"),
  "fednag": Entry("fedgm", "FedGM", "FedGM with ν = β"),
  "fedsnv": Entry("fedgm_maps", "FedGM, Lessard 2016", "FedGM as SNV(α, β₁, β₂)"),
  "fedpid": Entry("fedgm_maps", "FedGM, An 2018", "FedGM as a PID controller (k_P, k_I, k_D)"),
  "fedasgd": Entry("fedgm_maps", "FedGM, Kidambi 2018", "FedGM as accelerated SGD (δ, κ, ξ, ε)"),
  "fedtm": Entry("fedgm_maps", "FedGM, Van Scoy 2018", "FedGM as triple momentum (L, κ)"),
  "mime": Entry("mime", "Mime Alg. 1", "y ← y − η_l U(g(y) − g(x) + c, s); s ← V(E[G(x)], s)"),
  "mimelite": Entry("mimelite", "Mime Alg. 1", "y ← y − η_l U(g(y), s); s ← V(E[G(x)], s)"),
  "mimexlite": Entry("mimelite", "FedGBO sec. 5.2", "mimelite with g(x; b) of the first batch"),
  "mime_mvr": Entry("mime", "Mime, FedGLOMO", "y ← y − η_l [a g(y) + (1−a)(m + g(y) − g(x₋))]"),
  "fedgbo": Entry("fedgbo", "FedGBO Alg. 1", "y ← y − η_l U(g, s); s ← V(I(x, x⁺, s), s)"),
  "mfl": Entry("fedgbo", "Liu 2020", "s ← V(g, s) at every local step; average y and s"),
  "fedcm": Entry("fedcm", "Xu 2021", "y ← y − η_l (αg + (1−α)m); m ← E[Δ/(η_l K)]"),
  "fedadc": Entry("fedadc", "Ozfatura 2021", "y ← y − η_l (g + β_l m/K); m ← E[Δ]/η_l + (β−β_l)m"),
  "ghbm": Entry("ghbm", "GHBM eq. 6", "y ← y − η_l g + β/(τK)(x − x₍τ₎)"),
  "scaffold": Entry("scaffold", "SCAFFOLD Alg. 1", "y ← y − η_l (g − c_i + c)"),
  "feddyn": Entry("feddyn", "Acar 2021", "y ← y − η_l (g − g_i + α(y − x)); x ← E[y] − h/α"),
  "adabest": Entry("adabest", "Varno 2022", "y ← y − η_l (g − h_i); x ← ȳ − β(ȳ₋ − ȳ)"),
  "local_ghbm": Entry("local_ghbm", "GHBM sec. 3.4", "y ← y − η_l g + β/(τ_i K)(x − x_i^last)"),
  "fedhbm": Entry("fedhbm", "GHBM Alg. 1", "y ← y − η_l g + β/(τ_i K)(y − y_i^last)"),
  "fedcomgate": Entry("fedcomgate", "Haddadpour 2021", "δ_i ← δ_i + Q_i/K_i − E[Q_j/K_j]"),
  "fedpaq": Entry("fedpaq", "Reisizadeh 2020", "fedavg with Q(Δ)"),
  "fedpaq_lm": Entry("fedpaq", "FedGLOMO", "fedavg_lm with Q(Δ)"),
  "fedpaq_glm": Entry("fedpaq", "FedGLOMO", "fedavg_glm with Q(Δ)"),
  "fedlomo": Entry("fedlomo", "FedGLOMO Alg. 4, 5", "v ← g(y) + v − g(y₋); x ← x − E[Q(Δ)]"),
  "fedglomo": Entry("fedglomo", "FedGLOMO Alg. 1, 2", "u ← βE[Q(Δ)] + (1−β)(u + E[Q(Δ − Δ̂)])"),
  "autofedavg": Entry(
    "autofedgm", "FedGM", "x ← x − η E[Δ/K], each Δ from the version its client saw", True
  ),
  "autofedgm": Entry(
    "autofedgm", "FedGM Alg. 4", "autofedavg with FedGM's d and h of E[Δ/K]", True
  ),
  "autofedgm_staged": Entry(
    "autofedgm", "FedGM Alg. 4", "autofedgm with (η, β, ν) by stages", True
  ),
}
