#!/usr/bin/env python3
"""What becomes of a run on two nodes of a Slurm job, on a shared disk, when something fails: for each fault whether the first
cause is named, no process is left anywhere, and the weights at the end are those of a run that nothing has disturbed. The
job is submitted by `ftune train --slurm`, or srun starts each rank, where the name of a fault says so.

    slurm_faults.py --ftune build/release/ftune --work FOLDER [--times 5] [--steps 600] [--seed N] [--table docs/faults.md] [FAULT …]
"""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))

import fault_table
from cli_case import Case
from cluster import unavailable
from cluster_case import cluster_of, wait_until
from fault_table import Outcome, draw_step, times_of
from run_files import SLACK, RunFiles, agent_on, all_ranks, are_gone, none_left, ours, rank_of, ranks_on, seconds_to_end
from test_slurm import LONG, ON_THE_WAY, await_state, batch_recipe, job_field, start_now, submit

BATCH, OTHER = "node2", "node3"  # node1 has slurmctld, and no ranks
HEARTBEAT_TIMEOUT = 3
KILL_WAIT = 10  # of Slurm, between SIGTERM and SIGKILL
# Until nothing is left of ranks whose launcher is gone, or which Slurm ends itself.
TO_END = max(seconds_to_end(HEARTBEAT_TIMEOUT), KILL_WAIT + SLACK)


class JobRun(RunFiles):
    """A run that is submitted with --slurm."""

    def __init__(self, stage, cluster, *words):
        super().__init__(stage.out)
        self.cluster = cluster
        said = submit(cluster, stage.case, stage.recipe, "output_dir=out", *stage.words, *words)
        self.job, self.output = said["job"], Path(said["output"])

    def field(self, name):
        return job_field(self.cluster, self.job, name)

    def said(self):
        return self.output.read_text() if self.output.exists() else ""

    def await_step(self, step):
        def check_alive():
            state = self.field("JobState")
            assert state in ON_THE_WAY, (state, self.said())
        super().await_step(step, check_alive)

    def complete(self):
        try:
            await_state(self.cluster, self.job, {"COMPLETED"}, 300)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.said()[-3000:]}") from error
        none_left(self.cluster)


class StepRun(RunFiles):
    """A run whose ranks are the tasks of srun."""

    def __init__(self, stage, cluster, *words, command=None, environment=None):
        """`command`: in place of ftune, and calls it by its words."""
        super().__init__(stage.out)
        self.cluster, self._said = cluster, stage.case.folder / "said.txt"
        with open(self._said, "w") as said:
            self.process = cluster.popen(
                "node1", ["srun", "--nodelist=node[2-3]", "--ntasks-per-node=2", "--job-name=step", *(command or []), stage.case.ftune,
                          "train", stage.recipe, "output_dir=out", *stage.words, *words],
                cwd=stage.case.folder.resolve(), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                environment={"XDG_CACHE_HOME": stage.case.folder.resolve() / "cache", **(environment or {})})

    def said(self):
        return self._said.read_text()

    def await_step(self, step):
        def check_alive():
            assert self.process.poll() is None, f"it has ended: {self.said()}"
        super().await_step(step, check_alive)


class Stage:
    """Plays faults, each on a cluster of its own."""

    def __init__(self, ftune, work, steps):
        self.case, self.steps = Case(str(ftune), work / "faults"), steps
        self.recipe = batch_recipe(
            self.case, f"launch: {{ranks_per_host: 2, heartbeat_timeout: {HEARTBEAT_TIMEOUT}s, "
                       "slurm: {nodes: 2, extra: ['--nodelist=node[2-3]']}}\n"
                       f"checkpoint: {{save_steps: {steps // 15}}}\n", adapter=False)
        self.words = [f"train.max_steps={steps}", f"train.num_epochs={LONG}"]
        self.out = self.case.folder / "out"

    @functools.cached_property
    def expected(self):
        """The weights of a run that nothing disturbs."""
        with self.cluster() as cluster:
            run = JobRun(self, cluster)
            run.complete()
            return run.weights()

    def cluster(self):
        shutil.rmtree(self.out, ignore_errors=True)
        return cluster_of(self.case, 3, slurm=True, slurm_options={"kill_wait": KILL_WAIT})

    def play(self, name, draw):
        with self.cluster() as cluster:
            outcome, run = FAULTS[name].play(self, cluster, draw)
            weights = run.weights() if outcome.weights else None
        assert not outcome.weights or weights == self.expected, "other weights than those of an undisturbed run"
        return outcome


def disturb(run, stage, cluster, draw, fault):
    """→ when."""
    run.await_step(draw_step(draw, stage.steps))
    begun = time.time()
    fault(cluster, run, draw)
    return begun


@dataclass(frozen=True)
class StartsAgain:
    """The run starts again by itself, in its job, when none of its ranks are left."""

    fault: Callable
    cause: str  # what is said begins with it; {rank}: the one that the fault was done to

    def play(self, stage, cluster, draw):
        run = JobRun(stage, cluster)
        run.await_step(draw_step(draw, stage.steps))
        ranks = all_ranks(cluster)
        begun = time.time()
        rank = self.fault(cluster, run, draw)
        are_gone(cluster, ranks, TO_END)
        run.complete()
        cause, ended, trained = times_of(run, begun)
        assert cause.startswith(self.cause.format(rank=rank)), cause
        return Outcome(cause, ended, trained), run


@dataclass(frozen=True)
class GoesOn:
    """Nothing of it is noticed."""

    fault: Callable

    def play(self, stage, cluster, draw):
        run = JobRun(stage, cluster)
        disturb(run, stage, cluster, draw, self.fault)
        # What Slurm knows of the job afterwards is its own affair.
        wait_until(lambda: run.log()[-1]["event"] == "end", "the run is done", 300)
        none_left(cluster)
        assert [line["attempt"] for line in run.log() if line["event"] == "start"] == [1], run.said()
        return Outcome("none: the run goes on"), run


@dataclass(frozen=True)
class QueuedAgain:
    """Slurm queues the job again, which goes on."""

    fault: Callable
    says: str
    before_start: Callable = lambda cluster, job: None

    def play(self, stage, cluster, draw):
        run = JobRun(stage, cluster)
        begun = disturb(run, stage, cluster, draw, self.fault)
        wait_until(lambda: run.field("JobState") == "PENDING", "the job is queued again", 300)
        none_left(cluster, TO_END)
        ended = time.time() - begun
        self.before_start(cluster, run.job)
        start_now(cluster, run.job)
        run.complete()
        assert self.says in run.said(), run.said()
        attempt = max(line["attempt"] for line in run.log())
        assert attempt > 1
        trained = next(line["time"] for line in run.log() if line["event"] == "train" and line["attempt"] == attempt)
        return Outcome("by Slurm, which queues the job again", ended, trained - begun), run


@dataclass(frozen=True)
class EndsJob:
    """The job ends, and goes on when it is submitted again."""

    fault: Callable
    state: str
    exit_codes: list

    def play(self, stage, cluster, draw):
        run = JobRun(stage, cluster)
        begun = disturb(run, stage, cluster, draw, self.fault)
        await_state(cluster, run.job, {self.state})
        none_left(cluster, TO_END)
        ended = time.time() - begun
        assert run.field("ExitCode") in self.exit_codes, (run.field("ExitCode"), run.said())
        again = JobRun(stage, cluster, "--resume")
        again.complete()
        return Outcome("none: submitted again, the run goes on", ended), again


@dataclass(frozen=True)
class EndsStep:
    """The tasks of a step end, and go on when srun is called again."""

    fault: Callable
    cause: str | None  # the first error begins with it; {rank}: the one that the fault was done to; None: nobody is left to say any

    def play(self, stage, cluster, draw):
        run = StepRun(stage, cluster)
        run.await_step(draw_step(draw, stage.steps))
        begun = time.time()
        rank = self.fault(cluster, run, draw)
        code = run.process.wait(120)
        none_left(cluster, TO_END)
        ended = time.time() - begun
        assert code != 0 and run.steps()[-1] < stage.steps, (code, run.said())
        errors = [line.partition("error: ")[2] for line in run.said().splitlines() if line.startswith("error: ")]
        assert self.cause is None or errors[0].startswith(self.cause.format(rank=rank)), run.said()
        again = StepRun(stage, cluster, "--resume")
        assert again.process.wait(300) == 0, again.said()
        return Outcome(f"{errors[0] if self.cause else 'none'}; called again, the run goes on", ended), again


@dataclass(frozen=True)
class NoStep:
    """A step whose tasks cannot all be ranks: those that are there say why not, and end."""

    prepare: Callable  # → a command that calls ftune, and variables
    says: list

    def play(self, stage, cluster, draw):
        command, environment = self.prepare(cluster, draw)
        begun = time.time()
        run = StepRun(stage, cluster, command=command, environment=environment)
        assert run.process.wait(120) != 0, run.said()
        none_left(cluster, TO_END)
        said = [line for line in run.said().splitlines() if all(part in line for part in self.says)]
        assert said and not run.log(), run.said()
        return Outcome(said[0].partition("error: ")[2], time.time() - begun, weights=False), run


# What is done to a cluster while a run is on it; `draw` says where, if that is open; → the rank that it was done to, if to one.

def signal_rank(process, number):
    rank = rank_of(process)
    os.kill(process.pid, number)
    return rank


def kill_rank(number, node):
    return lambda cluster, run, draw: signal_rank(draw.choice(ranks_on(cluster, node)), number)


def kill_named(name, node):
    """The processes of this name, of which each node has its own."""
    def fault(cluster, run, draw):
        for process in cluster.processes(node, name):
            with contextlib.suppress(ProcessLookupError):  # it has ended with one before it
                os.kill(process.pid, signal.SIGKILL)
    return fault


def kill_agent(cluster, run, draw):
    os.kill(agent_on(cluster, OTHER).pid, signal.SIGKILL)


def kill_task(cluster, run, draw):
    return signal_rank(draw.choice(ours(cluster, OTHER)), signal.SIGKILL)


def cancel_step(cluster, run, draw):
    steps = cluster.run("node1", ["squeue", "--steps", "-h", "-o", "%i %j"], check=True).stdout.splitlines()
    step = next(line.split()[0] for line in steps if line.endswith(" ftune"))
    cluster.run("node1", ["scancel", step], check=True)


def call(*words):
    """On node1; the job's number follows."""
    return lambda cluster, run, draw: cluster.run("node1", [*words, run.job], check=True)


def restart_daemon(name, node, seconds):
    def fault(cluster, run, draw):
        kill_named(name, node)(cluster, run, draw)
        time.sleep(seconds)
        cluster.run(node, [name], check=True)
    return fault


def kill_for_good(name, node):
    def fault(cluster, run, draw):
        cluster.delay(node, 50)  # the ranks shall still run when Slurm notices
        kill_named(name, node)(cluster, run, draw)
    return fault


def switch_off(node):
    return lambda cluster, run, draw: cluster.poweroff(node)


def switch_on(node):
    def before_start(cluster, job):
        # A job that starts within seconds of the failure loses the node once more: Slurm is not done with it.
        time.sleep(10)
        cluster.poweron(node)
        cluster.slurm.await_idle(120)
        time.sleep(10)
    return before_start


def use_nodes(nodes):
    return lambda cluster, job: cluster.run("node1", ["scontrol", "update", f"JobId={job}", f"ReqNodeList={nodes}"], check=True)


def signal_srun(*numbers):
    def fault(cluster, run, draw):
        for number in numbers:
            run.process.send_signal(number)
            time.sleep(0.2)
    return fault


def dies_first(task):
    """A task that dies before it is a rank."""
    return lambda cluster, draw: (["sh", "-c", f'[ $SLURM_PROCID != {task} ] || kill -9 $$; exec "$@"', "sh"], {})


def take_port(cluster, draw):
    cluster.run(BATCH, ["/usr/sbin/sshd", "-p", "29500", "-o", "PidFile=none"], check=True)
    return [], {"MASTER_PORT": "29500"}


# A host's first rank stands for it.
CLOSED = "rank 2 on node3: its host is lost: the connection to its agent has ended"

FAULTS = {
    "a rank is killed": StartsAgain(kill_rank(signal.SIGKILL, OTHER), "rank {rank} on node3: it was killed by signal 9 (SIGKILL)"),
    "a rank beside the launcher is killed": StartsAgain(kill_rank(signal.SIGKILL, BATCH),
                                                        "rank {rank} on node2: it was killed by signal 9 (SIGKILL)"),
    "a rank is stopped": StartsAgain(kill_rank(signal.SIGSTOP, OTHER),
                                     f"rank {{rank}} on node3: nothing was heard of its process for {HEARTBEAT_TIMEOUT}s"),
    "an agent is killed": StartsAgain(kill_agent, CLOSED),
    "srun of an agent is killed": StartsAgain(kill_named("srun", BATCH), CLOSED),
    "the step of an agent is cancelled": StartsAgain(cancel_step, CLOSED),
    "slurmd is killed, and back after 3 s": GoesOn(restart_daemon("slurmd", OTHER, 3)),
    "slurmctld is killed, and back after 12 s": GoesOn(restart_daemon("slurmctld", "node1", 12)),
    "slurmd is killed for good": QueuedAgain(kill_for_good("slurmd", OTHER), "NODE FAILURE", use_nodes("node[1-2]")),
    "the job is queued again": QueuedAgain(call("scontrol", "requeue"), ""),
    "Slurm says that the time limit is near (USR1)": QueuedAgain(call("scancel", "--batch", "--signal=USR1"), "is queued again"),
    "a node is switched off": QueuedAgain(switch_off(OTHER), "NODE FAILURE", switch_on(OTHER)),
    "the launcher's node is switched off": QueuedAgain(switch_off(BATCH), "", switch_on(BATCH)),
    "the job is cancelled": EndsJob(call("scancel"), "CANCELLED", ["0:15", "75:0"]),
    "the job is told to save and end": EndsJob(call("scancel", "--batch", "--signal=TERM"), "FAILED", ["75:0"]),
    "srun starts the ranks: one is killed": EndsStep(kill_task, "rank {rank}: "),
    "srun starts the ranks: it is killed": EndsStep(signal_srun(signal.SIGKILL), None),
    "srun starts the ranks: Ctrl-C twice": EndsStep(signal_srun(signal.SIGINT, signal.SIGINT), None),
    "srun starts the ranks: the first dies before they have met": NoStep(dies_first(0), ["rank 0"]),
    "srun starts the ranks: the last dies before they have met": NoStep(dies_first(3), ["rank 3"]),
    "srun starts the ranks: their port is taken": NoStep(take_port, ["29500"]),
}


def main():
    return fault_table.main("slurm_faults.py", __doc__, list(FAULTS), lambda *place: Stage(*place).play, unavailable(slurm=True))


if __name__ == "__main__":
    sys.exit(main())
