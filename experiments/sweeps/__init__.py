"""The parts of `sweep.py`: search spaces, process pools, scheduling, halving, tables; no TensorFlow."""
