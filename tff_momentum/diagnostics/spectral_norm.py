"""The spectral norm of a symmetric matrix that is given only by its products with vectors."""

from collections.abc import Callable

import numpy as np


def spectral_norm(
  product: Callable[[np.ndarray], np.ndarray], start: np.ndarray, iterations: int
) -> float:
  """Estimates the largest |eigenvalue| by the Lanczos method with full reorthogonalisation.

  Example:
    >>> import numpy as np
    >>> from tff_momentum.diagnostics.spectral_norm import spectral_norm
    >>> matrix = np.diag([1.0, -5.0, 2.0])
    >>> round(spectral_norm(lambda v: matrix @ v, np.ones(3), iterations=3), 6)
    5.0

  Args:
    product: v -> the product of the matrix with v.
    start: the vector to start from; it must not be orthogonal to the eigenvector.
    iterations: the largest number of products.
  """
  basis = [start / np.linalg.norm(start)]
  diagonal: list[float] = []
  off_diagonal: list[float] = []
  while True:
    w = product(basis[-1])
    diagonal.append(float(basis[-1] @ w))
    ritz = np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
    largest = float(np.abs(np.linalg.eigvalsh(ritz)).max())
    for _ in range(2):  # once is not enough if the products are float32
      w = w - np.stack(basis).T @ (np.stack(basis) @ w)
    rest = float(np.linalg.norm(w))
    if len(basis) == min(iterations, len(start)) or rest <= 1e-5 * max(largest, 1e-12):
      return largest
    off_diagonal.append(rest)
    basis.append(w / rest)
