"""A run's folder.

* `folder`: the writer of config.json, metrics.csv and summary.json.
* `reader`: the reader of these files.
* `columns`: the columns of metrics.csv.
* `metric`: the metric that ranks the runs of a task.
* `final_value`: the final value of a run.
* `divergence`: when a run has diverged.
"""
