"""The papers' own measurements, for every algorithm: what can be asked for (nothing heavy is imported here).

Each measure has a file of its own; `measure.Measure` takes the chosen ones in the rounds of a run.
"""

NAMES = {
  "drift": "how far the clients are from walking as one, [000] Definition 3.1",
  "cosine": "mean pairwise cosine distance between the cohort's client models, [001] Figure 1",
  "alpha": "α and α/n of [002] Assumption 4, the largest over the local steps",
  "gradient": "norm of the full gradient, and the momentum against it, [000] section 4.2",
  "variance": "variance of the server's update over resampled cohorts, [002]",
  "flops": "operations of a client in the round, [001] Appendix B",
  "layers": "norm of the server's update, tensor by tensor",
  "dissimilarity": "G, B and δ of the cohort at the model, [004]; by far the most costly",
}
