"""Graph rewrites that make a client's TensorFlow function fast."""
