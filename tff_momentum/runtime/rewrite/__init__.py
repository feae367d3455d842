"""Rewrites of TensorFlow graphs that make them callable and fast; `passes` lists them in order."""
