"""The hooks of a run, one concern each; `tff_momentum.simulation.trainer` says what a hook is."""
