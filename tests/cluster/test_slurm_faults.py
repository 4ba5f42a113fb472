"""Faults of slurm_faults.py that take seconds."""

import random

import slurm_faults
from cluster_case import main

FAULTS = ["a rank is killed", "srun of an agent is killed", "srun starts the ranks: one is killed",
          "srun starts the ranks: the first dies before they have met", "srun starts the ranks: the last dies before they have met",
          "srun starts the ranks: their port is taken"]


def test_faults(case):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    stage = slurm_faults.Stage(case.ftune, case.folder, steps=180)
    for name in FAULTS:
        print(f"{name}: {stage.play(name, random.Random(f'{name} {seed}'))}", flush=True)


if __name__ == "__main__":
    main(globals(), __doc__, slurm=True)
