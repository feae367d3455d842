"""Command-line flags, presets and user errors; imports no TensorFlow."""
