"""The papers' own measurements, for every algorithm: what can be asked for (nothing heavy is imported here).

Each measure has a file of its own; `measure.Measure` takes the chosen ones in the rounds of a run.
"""

NAMES = {
  "drift": "how far the clients are from walking as one, GHBM, Definition 3.1",
  "cosine": "mean pairwise cosine distance between the cohort's client models, FedGBO, Figure 1",
  "alpha": "α and α/n of FedGLOMO, Assumption 4, the largest over the local steps",
  "gradient": "norm of the full gradient, and the momentum against it, GHBM, section 4.2",
  "variance": "variance of the server's update over resampled cohorts, the FedGLOMO paper",
  "flops": "operations of a client in the round, FedGBO, Appendix B",
  "layers": "norm of the server's update, tensor by tensor",
  "dissimilarity": "G, B and δ of the cohort at the model, the SCAFFOLD paper; by far the most costly",
}
