"""The parts of `sweep.py`: runs from grids, processes that run them, halving, tables; no TensorFlow."""
