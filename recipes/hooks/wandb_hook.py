"""A run on Weights & Biases. In the recipe: log: {hook: python3 recipes/hooks/wandb_hook.py}"""

import itertools
import json
import os
import sys

import wandb

folder = os.environ["FTUNE_RUN"]
first = sys.stdin.readline()  # once it is here, the log has lines
if not first:
    sys.exit()
with open(f"{folder}/log.jsonl") as log:
    began = json.loads(log.readline())["time"]  # the same when the run goes on: so it is one run there, too
run = wandb.init(project="ftune", name=os.path.basename(folder), id=f"{os.path.basename(folder)}-{began:.0f}", resume="allow")
run.define_metric("*", step_metric="step")
for line in map(json.loads, itertools.chain([first], sys.stdin)):
    if line["event"] == "start":
        run.config.update({"parameters": line["parameters"], "total_steps": line["total_steps"]}, allow_val_change=True)
    elif line["event"] in ("train", "eval"):
        run.log({name: value for name, value in line.items() if isinstance(value, (int, float)) and name != "attempt"})
run.finish()
