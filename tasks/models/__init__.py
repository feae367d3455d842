"""The papers' models, as Keras models that return logits."""
