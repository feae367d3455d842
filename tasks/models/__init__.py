"""The papers' models, as Keras models that give logits."""
