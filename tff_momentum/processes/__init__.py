"""Turns an `Algorithm` into TFF computations."""
