"""ftune under Slurm: tasks of a step as ranks, jobs that are submitted, and what becomes of them."""

import json
import math
import shutil
import subprocess
import time
from pathlib import Path

from cluster_case import cluster_of, main, wait_until

LONG = 100000  # steps: more than any test waits for
ON_THE_WAY = {"PENDING", "CONFIGURING", "RUNNING", "SIGNALING", "COMPLETING", "REQUEUED"}  # states of a job


def losses(case, run):
    return [line["loss"] for line in case.log(run) if line["event"] == "train"]


def check_losses(ours, expected):
    assert len(ours) == len(expected), (ours, expected)
    for a, b in zip(ours, expected, strict=True):
        assert math.isclose(a, b, rel_tol=1e-5), (ours, expected)


def batch_recipe(case, text="", **options):
    """A recipe whose batches up to four ranks can share."""
    name = case.recipe(text, **options)
    path = case.folder / name
    path.write_text(path.read_text().replace("global_batch_size: 2", "global_batch_size: 12")
                    .replace("sequence_len: 128", "sequence_len: 128, packing: false"))
    return name


def one_rank(case, recipe):
    done = case.run("train", recipe, "output_dir=one")
    assert done.returncode == 0, done.stderr
    return losses(case, "one")


def on_login(cluster, case, *words, environment=None, **options):
    """ftune on node1, in the test's folder."""
    return cluster.run("node1", [case.ftune, *words], cwd=case.folder.resolve(), timeout=300, **options,
                       environment={"XDG_CACHE_HOME": case.folder.resolve() / "cache", **(environment or {})})


def srun(cluster, case, options, *words, environment=None):
    return cluster.run("node1", ["srun", *options, case.ftune, *words], cwd=case.folder.resolve(), timeout=300,
                       environment={"XDG_CACHE_HOME": case.folder.resolve() / "cache", **(environment or {})})


def job_field(cluster, job, name):
    """Of `scontrol show job`; None where the job is forgotten."""
    said = cluster.run("node1", ["scontrol", "show", "job", job]).stdout
    for word in said.split():
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def submit(cluster, case, *words):
    """Submits with --slurm; → what --json says."""
    done = on_login(cluster, case, "train", *words, "--slurm", "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def await_state(cluster, job, states, seconds=240):
    def reached():
        state = job_field(cluster, job, "JobState")
        assert state in states | ON_THE_WAY, f"job {job}: {state}"
        return state in states
    wait_until(reached, f"job {job} is {states}", seconds)


def await_steps(case, run, count, job_output=None):
    def trained():
        path = case.folder / run / "log.jsonl"
        return path.exists() and path.read_text().count('"train"') >= count
    try:
        wait_until(trained, f"{count} steps", 120)
    except AssertionError as error:
        said = Path(job_output).read_text() if job_output and Path(job_output).exists() else ""
        raise AssertionError(f"{error}\n{said}") from error


def test_attempt(case):
    """A job that was queued again three times makes the fourth attempt, whatever is known of the others."""
    recipe = batch_recipe(case)
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURMD_NODENAME": "n1", "SLURM_RESTART_COUNT": "3"}
    for ranks in (1, 2):
        done = case.run("train", recipe, f"output_dir={ranks}", f"parallel.data={ranks}", environment=job)
        assert done.returncode == 0, done
        assert {line["attempt"] for line in case.log(str(ranks))} == {4}
    wrong = {**job, "SLURM_RESTART_COUNT": "some"}
    done = case.run("train", recipe, "output_dir=3", environment=wrong)
    assert done.returncode == 2 and "SLURM_RESTART_COUNT: found 'some'" in done.stderr, done


def test_step(case):
    """Each task of a step is a rank: the curve of one rank, however they are spread."""
    recipe = batch_recipe(case)
    expected = one_rank(case, recipe)
    with cluster_of(case, 3, slurm=True) as cluster:
        for name, options, words in (
                ("two-by-two", ["-N2", "--ntasks-per-node=2"], []),
                ("zero", ["-N2", "--ntasks-per-node=2"], ["parallel.zero=3", "parallel.persistence_threshold=0"]),
                ("uneven", ["-N2", "-n3", "--distribution=block"], []),
                ("cyclic", ["-N2", "-n4", "--distribution=cyclic"], []),
                ("others", ["-N2", "-n2", "--nodelist=node[2-3]"], [])):
            done = srun(cluster, case, options, "train", recipe, f"output_dir={name}", *words)
            assert done.returncode == 0, (name, done)
            check_losses(losses(case, name), expected)
            assert not cluster.left("ftune")
        assert "\nlaunch:\n  kind: slurm\n" in case.resolved("cyclic")
        # One task is no rank, and does what it does anywhere: here it starts two.
        done = srun(cluster, case, ["-N1", "-n1", "-c2"], "train", recipe, "output_dir=task", "parallel.data=2")
        assert done.returncode == 0, done
        check_losses(losses(case, "task"), expected)
        # A run of a step goes on elsewhere.
        done = case.run("resume", "cyclic", "train.max_steps=4")
        assert done.returncode == 0, done.stderr


def test_step_errors(case):
    recipe = batch_recipe(case)
    with cluster_of(case, 2, slurm=True) as cluster:
        two = ["-N2", "-n2"]
        done = srun(cluster, case, two, "train", recipe, "output_dir=a", "parallel.data=4")
        assert done.returncode == 2 and "SLURM_NTASKS: found 2, expected" in done.stderr, done
        done = srun(cluster, case, two, "train", recipe, "output_dir=b", "launch.kind=local")
        assert done.returncode == 2 and "launch.kind: found local, in a Slurm step of 2 tasks" in done.stderr, done
        done = srun(cluster, case, two, "train", recipe, "output_dir=c", environment={"MASTER_PORT": "many"})
        assert done.returncode == 2 and "MASTER_PORT: found 'many'" in done.stderr, done
        # torchrun's variables come first.
        done = srun(cluster, case, two, "train", recipe, "output_dir=d", environment={"RANK": "0"})
        assert done.returncode == 2 and "WORLD_SIZE: it is not set, but RANK is" in done.stderr, done
        done = on_login(cluster, case, "train", recipe, "output_dir=e", "launch.kind=slurm")
        assert done.returncode == 2 and "launch.kind: found slurm, outside of a Slurm job" in done.stderr, done
        for name in "abcde":
            assert not (case.folder / name / "log.jsonl").exists(), name


def test_step_failure(case):
    """A task that dies ends the others, which name it; scancel ends all, which save before."""
    recipe = batch_recipe(case)
    endless = [f"train.max_steps={LONG}", f"train.num_epochs={LONG}"]
    with cluster_of(case, 2, slurm=True, slurm_options={"kill_wait": 30}) as cluster:
        def start(run):
            process = cluster.popen("node1", ["srun", "-N2", "--ntasks-per-node=2", "--job-name", run, case.ftune, "train", recipe,
                                              f"output_dir={run}", *endless], cwd=case.folder.resolve(),
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            await_steps(case, run, 2)
            return process

        run = start("killed")
        victim = cluster.processes("node2", "ftune")[0]
        cluster.run("node2", ["python3", "-c", "import os, sys; os.kill(int(sys.argv[1]), 9)",
                              next(line.split()[-1] for line in Path(f"/proc/{victim.pid}/status").read_text().splitlines()
                                   if line.startswith("NSpid:"))], check=True)
        out, err = run.communicate(timeout=120)
        assert run.returncode != 0 and ("error: rank 2: " in err or "error: rank 3: " in err), (run.returncode, out, err)
        wait_until(lambda: not cluster.left("ftune"), "no rank is left")

        run = start("cancelled")
        cluster.run("node1", ["scancel", "--name", "cancelled"], check=True)
        run.communicate(timeout=120)
        wait_until(lambda: not cluster.left("ftune"), "no rank is left")
        assert any(line["event"] == "save" for line in case.log("cancelled")), case.log("cancelled")[-3:]


def hostile(case):
    """A recipe's file and folder with names that a shell would take apart."""
    names = ["it's", 'say "hi"', "$HOME", "`id`", "a\nb", "x;y", "*", " two  words "]
    folder = case.folder / " o'clock $(id) 50% #1 \"q\""
    return names, folder


def test_print(case):
    recipe = batch_recipe(case, "launch: {ranks_per_host: 2, threads: 1, slurm: {partition: main, account: science, time: '00:20:00', "
                                "nodes: 2, gpus_per_node: 4, constraint: big, extra: [--exclusive, --mem=0]}}\n")
    done = case.run("train", recipe, "output_dir=out", "--slurm", "--print")
    assert done.returncode == 0 and not (case.folder / "out").exists(), done
    for line in ("#SBATCH --job-name=out", "#SBATCH --partition=main", "#SBATCH --account=science", "#SBATCH --time=00:20:00",
                 "#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=2", "#SBATCH --cpus-per-task=1", "#SBATCH --gpus-per-node=4",
                 "#SBATCH --constraint=big", "#SBATCH --exclusive", "#SBATCH --mem=0", "#SBATCH --requeue",
                 "#SBATCH --open-mode=append", "#SBATCH --signal=B:USR1@300",
                 f"#SBATCH --output={case.folder.resolve()}/out/slurm-%j.out"):
        assert f"\n{line}\n" in done.stdout, (line, done.stdout)
    assert done.stdout.startswith("#!/bin/bash\n")
    assert json.loads(case.run("train", recipe, "output_dir=out", "--slurm", "--print", "--json").stdout)["script"] == done.stdout

    # The words of a command line, as the script's shell hands them on.
    names, _ = hostile(case)
    overrides = [f"train.sample_prompts=[{json.dumps(name)}]" for name in names[:1]] + [f"output_dir={name}" for name in names if "\n" not in name]
    done = case.run("train", recipe, *overrides, "--slurm", "--print")
    assert done.returncode == 2 and "train.sample_prompts" in done.stderr  # there is no evaluation data: the recipe is checked
    overrides = overrides[1:]
    done = case.run("train", recipe, *overrides, "--slurm", "--print")
    assert done.returncode == 0, done.stderr
    show = case.folder / "show.py"
    show.write_text("#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    show.chmod(0o755)
    line = next(line for line in done.stdout.splitlines() if line.endswith("--resume &"))
    assert line.startswith(case.ftune + " "), line
    said = subprocess.run(["bash", "-c", str(show.resolve()) + line.removeprefix(case.ftune).removesuffix("&")], capture_output=True,
                          text=True, check=True).stdout
    assert json.loads(said) == ["train", recipe, *overrides, "--resume"], said


def test_refused(case):
    """What cannot be submitted, each with one message."""
    recipe = batch_recipe(case)
    train = ["train", recipe, "output_dir=out", "--slurm"]
    for words, says in (
            (["--force"], "--force"), (["--dry-run"], "--dry-run"), (["--lr-range-test"], "--lr-range-test"),
            (["launch.slurm.time=4h"], "launch.slurm.time: found '4h'"),
            (["launch.slurm.extra=[exclusive]"], "launch.slurm.extra: found 'exclusive'"),
            (["launch.kind=local"], "launch.kind"), (["parallel.data=3", "launch.slurm.nodes=2"], "launch.slurm.nodes: found 2 hosts"),
            (["output_dir=a\\b"], "output_dir"), (['launch.slurm.account="a\\nb"'], "launch.slurm.account")):
        case.fails(2, *train, *words, "--print", says=[says])
    without = {"PATH": "/nowhere"}
    done = case.run(*train, environment=without)
    assert done.returncode == 2 and "there is no sbatch in PATH" in done.stderr and done.stderr.count("error:") == 1, done
    shutil.rmtree(case.folder / "out")
    assert case.run("train", recipe, "output_dir=out").returncode == 0
    case.fails(2, *train, says=["there is a run in this folder already"])

    with cluster_of(case, 1, slurm=True) as cluster:
        done = on_login(cluster, case, *train[:2], "output_dir=b", "--slurm", "launch.slurm.partition=nowhere")
        assert done.returncode == 2 and "error: sbatch: the job was not submitted: " in done.stderr, done
        assert "partition" in done.stderr and done.stderr.count("\n") == 1, done


def test_submit(case):
    """From a login node, on two nodes and, with odd names, on one; several ranks on each."""
    recipe = batch_recipe(case, "launch: {ranks_per_host: 2, slurm: {nodes: 2, constraint: big, extra: ['--nodelist=node[2-3]']}}\n")
    expected = one_rank(case, recipe)
    _, odd = hostile(case)
    with cluster_of(case, 3, slurm=True) as cluster:
        said = submit(cluster, case, recipe, "output_dir=out")
        await_state(cluster, said["job"], {"COMPLETED"})
        assert sorted(path.name for path in (case.folder / "out" / "ranks" / "attempt-1").iterdir()) == [f"rank-{i}.log" for i in range(4)]
        assert said["run"] == str(case.folder.resolve() / "out") and Path(said["script"]).read_text().startswith("#!/bin/bash\n")
        check_losses(losses(case, "out"), expected)
        assert "step" in Path(said["output"]).read_text()
        # It goes on, and finds that nothing is left to do.
        done = cluster.run("node1", ["sbatch", "--wait", said["script"]], timeout=300)
        assert done.returncode == 0, done
        # In a folder with such a name, submitted from within a step, whose variables the job does not take for its own.
        odd.mkdir()
        for name in (recipe, "chats.jsonl"):
            shutil.copy(case.folder / name, odd)
        done = cluster.run("node1", ["srun", "-N2", "-n2", "sh", "-c", '[ $SLURM_PROCID = 1 ] || exec "$@"', "sh", case.ftune, "train",
                                     recipe, "output_dir=it's out", "launch.slurm.nodes=1", "launch.slurm.extra=[]", "--slurm", "--json"], cwd=odd.resolve(),
                           timeout=120, environment={"XDG_CACHE_HOME": case.folder.resolve() / "cache"})
        assert done.returncode == 0, done
        said = json.loads(done.stdout)
        await_state(cluster, said["job"], {"COMPLETED"})
        check_losses(losses(case, odd / "it's out"), expected)


def test_salloc(case):
    """In the shell of salloc, which is on the login node: ranks are on the nodes that it got."""
    recipe = batch_recipe(case, "launch: {ranks_per_host: 2}\n")
    expected = one_rank(case, recipe)
    with cluster_of(case, 3, slurm=True) as cluster:
        for nodes in ("node[2-3]", "node2"):
            words = ["salloc", f"--nodelist={nodes}", case.ftune, "train", recipe, f"output_dir={nodes[:5]}"]
            done = cluster.run("node1", words, cwd=case.folder.resolve(), timeout=300,
                               environment={"XDG_CACHE_HOME": case.folder.resolve() / "cache"})
            assert done.returncode == 0, done
            check_losses(losses(case, nodes[:5]), expected)
            wait_until(lambda: not cluster.left("ftune"), "no rank is left")


def test_node_is_cut(case):
    """A node that the launcher hears nothing of any more ends the attempt on the others, and its own ranks by itself."""
    recipe = batch_recipe(case, "launch: {ranks_per_host: 1, heartbeat_timeout: 3s, max_restarts: 0}\n")
    with cluster_of(case, 3, slurm=True) as cluster:
        salloc = cluster.popen("node1", ["salloc", "--nodelist=node[2-3]", case.ftune, "train", recipe, "output_dir=out",
                                         f"train.max_steps={LONG}", f"train.num_epochs={LONG}"], cwd=case.folder.resolve(),
                               environment={"XDG_CACHE_HOME": case.folder.resolve() / "cache"}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        await_steps(case, "out", 3)
        cluster.isolate("node3")
        out, err = salloc.communicate(timeout=120)
        assert salloc.returncode == 5 and "node3" in err, (salloc.returncode, out, err)
        wait_until(lambda: not cluster.left("ftune"), "no rank is left")


def test_cancel(case):
    """A job whose script is told to end saves and ends for good; one that is submitted again goes on; scancel leaves nothing."""
    recipe = batch_recipe(case, f"launch: {{ranks_per_host: 2, slurm: {{nodes: 2}}}}\ncheckpoint: {{save_steps: {LONG}}}\n")
    with cluster_of(case, 2, slurm=True, slurm_options={"kill_wait": 30}) as cluster:
        words = [recipe, "output_dir=out", f"train.max_steps={LONG}", f"train.num_epochs={LONG}"]
        said = submit(cluster, case, *words)
        await_steps(case, "out", 3, said["output"])
        cluster.run("node1", ["scancel", "--batch", "--signal=TERM", said["job"]], check=True)
        await_state(cluster, said["job"], {"FAILED"})
        assert job_field(cluster, said["job"], "ExitCode") == "75:0"
        wait_until(lambda: not cluster.left("ftune"), "no rank is left")
        saved = [line["step"] for line in case.log("out") if line["event"] == "save"]
        assert saved, Path(said["output"]).read_text()
        again = submit(cluster, case, *words, "--resume")
        await_steps(case, "out", case.log("out")[-1]["step"] + 3, again["output"])
        assert any(line["event"] == "start" and line["step"] == saved[-1] for line in case.log("out"))
        cluster.run("node1", ["scancel", again["job"]], check=True)
        await_state(cluster, again["job"], {"CANCELLED"})
        wait_until(lambda: not cluster.left("ftune"), "no rank is left")
        # On one node the ranks themselves save.
        one = submit(cluster, case, *words, "--resume", "launch.slurm.nodes=1")
        await_steps(case, "out", case.log("out")[-1]["step"] + 3, one["output"])
        saves = sum(line["event"] == "save" for line in case.log("out"))
        cluster.run("node1", ["scancel", one["job"]], check=True)
        await_state(cluster, one["job"], {"CANCELLED"})
        wait_until(lambda: not cluster.left("ftune"), "no rank is left")
        assert sum(line["event"] == "save" for line in case.log("out")) > saves


def start_now(cluster, job):
    """A job that was queued again waits two minutes if nobody asks for less. Some seconds it needs: what its nodes still know
    of its last start would end it."""
    time.sleep(5)
    cluster.run("node1", ["scontrol", "update", f"JobId={job}", "StartTime=now"], check=True)


def test_requeue(case):
    """A job that is queued again goes on with its run, in a further attempt, to the same losses."""
    recipe = batch_recipe(case, "launch: {ranks_per_host: 2, slurm: {nodes: 2}}\ncheckpoint: {save_steps: 20}\n")
    words = ["train.max_steps=600", f"train.num_epochs={LONG}"]
    with cluster_of(case, 2, slurm=True) as cluster:
        said = submit(cluster, case, recipe, "output_dir=out", *words)
        await_steps(case, "out", 50, said["output"])
        cluster.run("node1", ["scontrol", "requeue", said["job"]], check=True)
        await_state(cluster, said["job"], {"PENDING"})
        wait_until(lambda: not cluster.left("ftune"), "no rank is left")
        start_now(cluster, said["job"])
        await_state(cluster, said["job"], {"COMPLETED"})
        starts = [(line["attempt"], line["step"]) for line in case.log("out") if line["event"] == "start"]
        assert len(starts) == 2 and starts[1][0] == 2 and starts[1][1] > 0, starts
    done = case.run("train", recipe, "output_dir=whole", *words)
    assert done.returncode == 0, done.stderr
    last = {line["step"]: line["loss"] for line in case.log("out") if line["event"] == "train"}
    check_losses([last[step] for step in sorted(last)], losses(case, "whole"))


if __name__ == "__main__":
    main(globals(), __doc__, slurm=True)
