"""The parts of `experiments/doctor.py`: checks of this machine."""
