"""The papers' own measurements, for every algorithm.

`measure.Measure` takes the chosen measures during a run. Each measure has a file of its own and also works
by itself. This module imports nothing heavy, so the command line can check names without TensorFlow.
"""

NAMES = {
  "drift": "client drift: how far apart the clients' local steps take them (GHBM, Definition 3.1)",
  "cosine": "mean pairwise cosine distance between the cohort's client models (FedGBO, Figure 1)",
  "alpha": "α and α/n of FedGLOMO, Assumption 4, the largest over the local steps",
  "gradient": "norm of the full gradient, compared with the server's momentum (GHBM, section 4.2)",
  "variance": "variance of the server's update over resampled cohorts (FedGLOMO)",
  "flops": "floating-point operations of a client in the round (FedGBO, Appendix B)",
  "layers": "norm of the server's update in each layer",
  "dissimilarity": "G, B and δ of the cohort at the model (SCAFFOLD); by far the slowest measure",
}
