#!/bin/bash
# A Slurm job that trains on all of its nodes until the run is done, over as many time limits as that takes:
#   sbatch train.sh recipe.yaml
# `ftune train recipe.yaml --slurm` writes and submits such a script by itself.
#SBATCH --job-name=ftune
#SBATCH --output=slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@300

ftune train "$@" --resume &
run=$!
limit=far
# Slurm sends USR1 to this script 300 s before the time limit. The run then saves, and ends with status 75.
trap 'limit=near; kill -TERM "$run"' USR1
# TERM ends the job for good: the run saves, and is waited for.
trap 'kill -TERM "$run"' TERM
# A signal cuts a wait short.
while kill -0 "$run" 2>/dev/null; do wait "$run"; done
wait "$run"
status=$?
if [[ $limit == near && $status == 75 ]]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
