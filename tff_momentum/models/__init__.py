"""Keras and TFF functional models as pure functions of (weights, batch, seed)."""
