#!/bin/bash
# The same with one task of Slurm's for each rank: srun starts them, and their signals and ends are srun's affair.
#   sbatch train-by-srun.sh recipe.yaml
#SBATCH --job-name=ftune
#SBATCH --output=slurm-%j.out
#SBATCH --open-mode=append
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=4
#SBATCH --time=04:00:00
#SBATCH --requeue
# To the tasks, 300 s before the time limit: they save, and end with status 75.
#SBATCH --signal=TERM@300

# Ranks say themselves why they end; what hangs is ended a while after the first.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=0 --wait=120 ftune train "$@" --resume
status=$?
# scancel, which is for good, ends this script before it comes here.
if [[ $status == 75 ]]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
