"""Builds and trains what a configuration describes.

* `build`: from a `RunConfig` to the task, algorithm, process, participation, diagnostics and client store.
* `experiment`: one run, from its flags to its closing words.
* `hooks`: what happens beside training, one concern per file.
* `export`: the trained models.
"""
