"""A run in MLflow. In the recipe: log: {hook: python3 recipes/hooks/mlflow_hook.py}"""

import json
import os
import sys

import mlflow

folder = os.environ["FTUNE_RUN"]
mlflow.set_experiment("ftune")
# A run that goes on is one run there, too.
known = mlflow.search_runs(filter_string=f"tags.ftune_run = '{folder}'", output_format="list") if int(os.environ["FTUNE_ATTEMPT"]) > 1 else []
with mlflow.start_run(run_id=known[0].info.run_id if known else None, run_name=os.path.basename(folder), tags={"ftune_run": folder}):
    for line in map(json.loads, sys.stdin):
        if line["event"] in ("train", "eval"):
            values = {name: value for name, value in line.items() if isinstance(value, (int, float)) and name not in ("step", "time", "attempt")}
            mlflow.log_metrics(values, step=line["step"], timestamp=int(1000 * line["time"]))
