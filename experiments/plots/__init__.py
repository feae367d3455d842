"""Plots of finished runs and of client drift."""
