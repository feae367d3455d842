"""Momentum and drift correction in federated learning, as TensorFlow Federated processes."""
