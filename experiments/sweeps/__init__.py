"""The parts of `sweep.py`: cells from grids, processes that run them, halving, tables; no TensorFlow."""
