"""The labels of axes and columns, in static figures and in the page's charts."""

X_LABELS = {
  "rounds": "Communication rounds",
  "bytes": "Bytes exchanged (down and up, all clients)",
  "seconds": "Training time",
  "virtual": "Simulated time",
}

COLUMN_LABELS = {
  "train/loss": "Training loss of the cohort",
  "eval/loss": "Test loss",
  "update_norm": "Norm of the server’s update",
  "clients/non_finite": "Non-finite updates",
  "clients/dropped": "Clients that dropped out",
  "clients/late": "Clients past the deadline",
  "privacy/epsilon": "ε of differential privacy",
  "diagnostics/drift": "Client drift",
  "diagnostics/cosine": "Cosine distance between client models",
  "diagnostics/alpha": "α of FedGLOMO’s Assumption 4",
  "diagnostics/alpha_per_client": "α/n of FedGLOMO’s Assumption 4",
  "diagnostics/gradient_norm": "Norm of the full gradient",
  "diagnostics/momentum_norm": "Norm of the momentum",
  "diagnostics/momentum_error": "Distance of momentum to full gradient",
  "diagnostics/momentum_cosine": "Cosine of momentum and full gradient",
  "diagnostics/variance": "Variance of the update over cohorts",
  "diagnostics/flops": "FLOPs per client and round",
  "diagnostics/G": "Gradient dissimilarity G",
  "diagnostics/B": "Gradient dissimilarity B",
  "diagnostics/delta": "Hessian dissimilarity δ",
}
