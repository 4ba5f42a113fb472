"""What takes Slurm minutes: time limits, and nodes that fail."""

import time
from pathlib import Path

from cluster_case import cluster_of, main, wait_until
from test_slurm import (LONG, ON_THE_WAY, await_state, await_steps, batch_recipe, check_losses, job_field, losses, start_now, submit)

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def finish(cluster, job, seconds=900):
    """Waits until a job is completed; each time it is queued again it starts at once. → how often it was."""
    end = time.monotonic() + seconds
    starts = 0
    while (state := job_field(cluster, job, "JobState")) != "COMPLETED":
        assert state in ON_THE_WAY, state
        assert time.monotonic() < end, f"job {job} is {state} after {seconds} s"
        restarts = int(job_field(cluster, job, "Restarts"))
        if state == "PENDING" and restarts > starts:
            start_now(cluster, job)
            starts = restarts
        time.sleep(0.2)
    return starts


def final_losses(case, run):
    """Of each step, as the last attempt that did it has it."""
    last = {line["step"]: line["loss"] for line in case.log(run) if line["event"] == "train"}
    return [last[step] for step in sorted(last)]


def check_whole(case, recipe, run, words):
    done = case.run("train", recipe, "output_dir=whole", *words)
    assert done.returncode == 0, done.stderr
    check_losses(final_losses(case, run), losses(case, "whole"))


def steps_a_second(cluster, case, recipe):
    begin = time.monotonic()
    said = submit(cluster, case, recipe, "output_dir=measured", "train.max_steps=300", f"train.num_epochs={LONG}")
    await_state(cluster, said["job"], {"COMPLETED"})
    return 300 / (time.monotonic() - begin)


def test_time_limit(case):
    """Before the limit the run is saved and the job queued again, as often as it takes: the curve of a run in one go."""
    recipe = batch_recipe(case, f"launch: {{ranks_per_host: 2, slurm: {{nodes: 2}}}}\ncheckpoint: {{save_steps: {LONG}}}\n")
    with cluster_of(case, 2, slurm=True, slurm_options={"kill_wait": 30}) as cluster:
        steps = int(75 * steps_a_second(cluster, case, recipe))
        words = [f"train.max_steps={steps}", f"train.num_epochs={LONG}"]
        said = submit(cluster, case, recipe, "output_dir=out", *words, 'launch.slurm.time="1"')
        requeued = finish(cluster, said["job"])
        attempts = [line["attempt"] for line in case.log("out") if line["event"] == "start"]
        assert requeued >= 1 and attempts == list(range(1, requeued + 2)), (requeued, attempts)
        output = open(said["output"]).read()
        assert output.count("is queued again") == requeued, output
        assert int(job_field(cluster, said["job"], "Restarts")) == requeued
        assert not cluster.left("ftune")
        print(f"{steps} steps, queued again {requeued} times", flush=True)
    check_whole(case, recipe, "out", words)


def test_time_limit_of_srun(case):
    """The same where srun starts the ranks on two nodes: the script that comes with ftune."""
    recipe = batch_recipe(case, f"checkpoint: {{save_steps: {LONG}}}\n")
    script = case.folder / "train.sh"
    text = (RECIPES / "slurm" / "train-by-srun.sh").read_text()
    script.write_text(text.replace("ftune train", f"{case.ftune} train").replace("#SBATCH --gpus-per-node=4\n", ""))
    options = ["--ntasks-per-node=2", "--cpus-per-task=1", "--signal=TERM@15", "--time=1"]
    with cluster_of(case, 2, slurm=True, slurm_options={"kill_wait": 30}) as cluster:
        steps = int(50 * steps_a_second(cluster, case, recipe))
        words = [f"train.max_steps={steps}", f"train.num_epochs={LONG}"]
        done = cluster.run("node1", ["sbatch", "--parsable", *options, script.resolve(), recipe, "output_dir=out", *words],
                           cwd=case.folder.resolve(), environment={"XDG_CACHE_HOME": case.folder.resolve() / "cache"}, check=True)
        job = done.stdout.strip()
        requeued = finish(cluster, job)
        assert requeued >= 1, (case.folder / f"slurm-{job}.out").read_text()
        assert not cluster.left("ftune")
        print(f"{steps} steps, queued again {requeued} times", flush=True)
    check_whole(case, recipe, "out", words)


def test_node_failure(case):
    """A node that loses its power ends the ranks on the other; the job is queued again, and goes on when the node is back."""
    recipe = batch_recipe(case, "launch: {heartbeat_timeout: 5s}\ncheckpoint: {save_steps: 20}\n")
    words = ["train.max_steps=600", f"train.num_epochs={LONG}"]
    script = f"#!/bin/bash\nsrun --wait=0 --kill-on-bad-exit=0 {case.ftune} train {recipe} output_dir=out {' '.join(words)} --resume\n"
    with cluster_of(case, 3, slurm=True) as cluster:
        job = cluster.run("node1", ["sbatch", "--parsable", "--requeue", "--open-mode=append", "--output=job.out", "--nodes=2",
                                    "--ntasks-per-node=2", "--nodelist=node[2-3]"], text=script, cwd=case.folder.resolve(),
                          environment={"XDG_CACHE_HOME": case.folder.resolve() / "cache"}, check=True).stdout.strip()
        await_steps(case, "out", 60, case.folder / "job.out")
        cluster.poweroff("node3")
        wait_until(lambda: job_field(cluster, job, "JobState") == "PENDING", "the job is queued again", 300)
        wait_until(lambda: not cluster.left("ftune"), "no rank is left")
        # A job that starts within seconds of the failure loses the node once more: Slurm is not done with it.
        time.sleep(10)
        cluster.poweron("node3")
        cluster.slurm.await_idle(120)
        time.sleep(10)
        assert finish(cluster, job) == 1
        assert [line["attempt"] for line in case.log("out") if line["event"] == "start"] == [1, 2]
    check_whole(case, recipe, "out", words)


if __name__ == "__main__":
    main(globals(), __doc__, slurm=True)
