"""The command line of a run, read and checked without TensorFlow.

* `flags`: every flag and its help text.
* `presets`, `from_config`, `scale`: flags that come from a file.
* `run_request`: what the flags ask for, checked.
* `run_config`: every value of a run, resolved; config.json is written from it.
* `errors`: one sentence for every mistake of the user.
"""
