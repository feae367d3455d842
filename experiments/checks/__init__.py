"""Checks of this machine, for `experiments/doctor.py`."""
