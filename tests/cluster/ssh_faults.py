#!/usr/bin/env python3
"""What becomes of a run on three hosts, over SSH and without a shared disk, when something fails: for each fault whether the
first cause is named, no process is left anywhere, and the weights at the end are those of a run that nothing has disturbed.

    ssh_faults.py --ftune build/release/ftune --work FOLDER [--times 5] [--steps 600] [--seed N] [--table docs/faults.md] [FAULT …]
"""

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
from cluster import Cluster, unavailable
from fault_table import Outcome, draw_step, times_of
from host_run import CACHE, OUT, HostRun
from run_files import agent_on, all_ranks, are_gone, none_left, rank_of, ranks_on, seconds_to_end

HEARTBEAT_TIMEOUT = 3
HOSTS = "[{host: node1, slots: 1}, {host: node2, slots: 2}, {host: node3, slots: 1}]"
# Where a host has the launcher, but no ranks.
FAR = ("launch.hosts=[{host: node2, slots: 1}, {host: node3, slots: 2}, {host: node4, slots: 1}]",)
AT_TERMINAL = ("python3", "-c", "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))")
SSHD = ["/usr/sbin/sshd", "-E", "/var/log/cluster/sshd.log"]


# What is done to a cluster while a run is on it; `draw` says where, if that is open; → the rank that it was done to, if to one.

def kill_rank(number, node="node2"):
    def fault(cluster, run, draw):
        process = draw.choice(ranks_on(cluster, node))
        rank = rank_of(process)
        os.kill(process.pid, number)
        return rank
    return fault


def kill_agent(number):
    return lambda cluster, run, draw: os.kill(agent_on(cluster, "node2").pid, number)


def for_seconds(seconds, begin, end):
    def fault(cluster, run, draw):
        begin(cluster)
        time.sleep(seconds)
        end(cluster)
    return fault


def kill_sshd(cluster, node, sessions):
    """The process that takes connections, and, if `sessions`, those that hold them."""
    for process in cluster.processes(node, "sshd"):
        if sessions or "[listener]" in process.command:
            os.kill(process.pid, signal.SIGKILL)


def start_sshd(cluster, node):
    cluster.run(node, SSHD, check=True)


# What has been done to a cluster before a run is called; gives words for its call, if there are any.

def name_nowhere(cluster, case):
    with cluster.path("node1", "/etc/hosts").open("a") as hosts:
        hosts.write("10.77.0.200 nowhere\n")
    return ["launch.hosts=[node1, node2, nowhere, node3]", "launch.start_timeout=8s"]


def off(cluster, case):
    cluster.poweroff("node3")
    return ["launch.start_timeout=8s"]


def other_program(change):
    """node2 has a program that is changed so, in the place of the others'."""
    def prepare(cluster, case):
        other = case.folder.resolve() / "other-ftune"
        shutil.copy(case.ftune, other)
        other.write_bytes(change(other, other.read_bytes()))
        cluster.run("node2", ["mount", "--bind", other, case.ftune], check=True)
        return []
    return prepare


def next_version(program, text):
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1].encode()
    return text.replace(version, version[:-1] + (b"8" if version.endswith(b"9") else b"9"))


def forget_host_key(replacement):
    def prepare(cluster, case):
        known = cluster.path("node1", "/etc/ssh/ssh_known_hosts")
        lines = [line for line in known.read_text().splitlines() if not line.startswith("node2,")]
        known.write_text("\n".join(lines + replacement) + "\n")
        return []
    return prepare


def ask_for_password(cluster, case):
    cluster.path("node2", "/root/.ssh/authorized_keys").unlink()
    kill_sshd(cluster, "node2", sessions=True)
    cluster.run("node2", [*SSHD, "-oPasswordAuthentication=yes", "-oPermitRootLogin=yes"], check=True)
    return []


def lock_key(cluster, case):
    cluster.run("node1", ["ssh-keygen", "-q", "-p", "-N", "a passphrase", "-f", "/root/.ssh/id_ed25519"], check=True)
    return []


def firewall(*nodes):
    """Nothing but ssh reaches these any more."""
    def prepare(cluster, case):
        rules = "type filter hook input priority 0;\niifname eth0 tcp flags & (syn | ack) == syn tcp dport != 22 drop"
        for node in nodes:
            cluster.run(node, ["nft", "-f", "-"], text=f"table inet wall {{ chain input {{\n{rules}\n}}\n}}\n", check=True)
        return ["launch.start_timeout=20s"]
    return prepare


def name_alike(cluster, case):
    """All hosts call themselves the same (`uname -n`), though they are known by names of their own."""
    for node in cluster.nodes:
        cluster.run(node, ["hostname", "alike"], check=True)


def small_disk(node, folder, size):
    def prepare(cluster, case):
        cluster.run(node, ["mkdir", "-p", folder], check=True)
        cluster.run(node, ["mount", "-t", "tmpfs", "-o", f"size={size}", "small", folder], check=True)
        return []
    return prepare


def fill_disk(node, folder):
    return lambda cluster, run, draw: cluster.run(node, ["dd", "if=/dev/zero", f"of={folder}/filler", "bs=4k"])


def without_room(node, folder):
    def prepare(cluster, case):
        small_disk(node, folder, "16k")(cluster, case)
        fill_disk(node, folder)(cluster, None, None)
        return []
    return prepare


def make_room(node, folder):
    return lambda cluster: cluster.path(node, f"{folder}/filler").unlink()


class Stage:
    """Plays faults, each on a cluster of its own."""

    def __init__(self, ftune, work, steps):
        self.case, self.steps = Case(str(ftune), work / "faults"), steps
        self.case.recipe(f"launch: {{hosts: {HOSTS}, heartbeat_timeout: {HEARTBEAT_TIMEOUT}s}}\n"
                         f"checkpoint: {{save_steps: {steps // 15}}}\n", adapter=False)
        path = self.case.folder / "recipe.yaml"
        text = path.read_text().replace("global_batch_size: 2, max_steps: 3, num_epochs: 3",
                                        f"global_batch_size: 12, max_steps: {steps}, num_epochs: 100000")
        path.write_text(text.replace("sequence_len: 128", "sequence_len: 128, packing: false"))

    @functools.cached_property
    def expected(self):
        """The weights of a run that nothing disturbs."""
        with self.cluster() as cluster:
            run = self.start(cluster)
            run.end(0)
            none_left(cluster)
            return run.weights()

    def cluster(self):
        return Cluster(4, self.case.folder.with_name("faults-cluster"),
                       tools=Path(self.case.ftune).parent / "tests", share=[self.case.folder.resolve(), Path(self.case.ftune).parent])

    def start(self, cluster, *words, **options):
        return HostRun(cluster, self.case, "train", "recipe.yaml", *words, **options)

    def play(self, name, draw):
        with self.cluster() as cluster:
            return FAULTS[name].play(self, cluster, draw)

    def check_weights(self, run):
        assert run.weights() == self.expected, "other weights than those of an undisturbed run"


@dataclass(frozen=True)
class StartsAgain:
    """The run is disturbed, and starts again by itself, when none of its ranks are left."""

    fault: Callable
    causes: list  # what is said begins with one of them; {rank}: the one that the fault was done to
    prepare: Callable = lambda cluster, case: None

    def play(self, stage, cluster, draw):
        self.prepare(cluster, stage.case)
        run = stage.start(cluster)
        run.await_step(draw_step(draw, stage.steps))
        ranks = all_ranks(cluster)
        begun = time.time()
        rank = self.fault(cluster, run, draw)
        are_gone(cluster, ranks, seconds_to_end(HEARTBEAT_TIMEOUT))
        run.end(0)
        none_left(cluster)
        cause, ended, trained = times_of(run, begun)
        assert cause.startswith(tuple(begin.format(rank=rank) for begin in self.causes)), cause
        stage.check_weights(run)
        return Outcome(cause, ended, trained)


@dataclass(frozen=True)
class GoesOn:
    """Nothing of it is noticed."""

    fault: Callable
    words: tuple = ()

    def play(self, stage, cluster, draw):
        run = stage.start(cluster, *self.words)
        run.await_step(draw_step(draw, stage.steps))
        self.fault(cluster, run, draw)
        run.end(0)
        none_left(cluster)
        assert not [line for line in run.log() if line["event"] == "restart"], run.said.read_text()[-3000:]
        stage.check_weights(run)
        return Outcome("none: the run goes on")


@dataclass(frozen=True)
class EndsRun:
    """The run is ended, and goes on when it is called again."""

    fault: Callable
    codes: list
    words: tuple = ()
    out: str = OUT
    says: str = ""
    early: bool = True  # before the ranks have trained to the end
    prepare: Callable = lambda cluster, case: None
    repair: Callable = lambda cluster: None

    def play(self, stage, cluster, draw):
        self.prepare(cluster, stage.case)
        run = stage.start(cluster, *self.words, out=self.out)
        run.await_step(draw_step(draw, stage.steps))
        begun = time.time()
        self.fault(cluster, run, draw)
        code = run.process.wait(120)
        none_left(cluster, seconds_to_end(HEARTBEAT_TIMEOUT))
        ended = time.time() - begun
        said = run.said.read_text()
        assert code in self.codes and self.says in said, (code, said[-3000:])
        # Nobody has waited for the end of what was left running.
        assert not self.early or run.steps()[-1] < stage.steps, "the ranks have trained to the end"
        self.repair(cluster)
        again = stage.start(cluster, *self.words, "--resume", out=self.out)
        again.end(0)
        stage.check_weights(again)
        cause = next(line for line in said.splitlines() if self.says in line) if self.says else "none"
        return Outcome(f"{cause.replace('error: ', '')}; called again, the run goes on", ended)


@dataclass(frozen=True)
class Refused:
    """Something is wrong before the run begins: one message says what, and nothing is left anywhere. It is called from a
    terminal, at which ssh would ask if it were let."""

    prepare: Callable
    code: int
    says: list

    def play(self, stage, cluster, draw):
        words = self.prepare(cluster, stage.case)
        begun = time.time()
        run = stage.start(cluster, *words, through=AT_TERMINAL)
        said = run.end(self.code)
        errors = [line for line in said.splitlines() if "error:" in line]
        assert len(errors) == 1 and all(part in errors[0] for part in self.says), said
        none_left(cluster)
        assert not run.log(), run.log()
        return Outcome(f"refused: {errors[0].replace('error: ', '', 1).strip()}", time.time() - begun, weights=False)


def send(*numbers):
    def fault(cluster, run, draw):
        for number in numbers:
            run.process.send_signal(number)
            time.sleep(0.2 * draw.random())
    return fault


def unheard(rank):
    return f"{rank}: nothing was heard of its process for {HEARTBEAT_TIMEOUT}s"


def silent(first, *others):
    """Nothing comes from a host of these ranks: the launcher, for which the first stands for all, waits as long as other ranks."""
    return [f"{first}: its host is lost: it has been silent for {HEARTBEAT_TIMEOUT}s", unheard(first), *map(unheard, others)]


CLOSED = "rank 1 on node2: its host is lost: the connection to its agent has ended"
SILENT = silent("rank 1 on node2", "rank 2 on node2")


FAULTS = {
    "a rank is killed (SIGKILL)": StartsAgain(kill_rank(signal.SIGKILL), ["rank {rank} on node2: it was killed by signal 9 (SIGKILL)"]),
    "a rank crashes (SIGSEGV)": StartsAgain(kill_rank(signal.SIGSEGV), ["rank {rank} on node2: it was killed by signal 11 (SIGSEGV)"]),
    "a rank is stopped (SIGSTOP)": StartsAgain(
        kill_rank(signal.SIGSTOP), [unheard("rank {rank} on node2")]),
    "a rank of the launcher's host is killed": StartsAgain(kill_rank(signal.SIGKILL, "node1"),
                                                           ["rank 0 on node1: it was killed by signal 9 (SIGKILL)"]),
    "a rank is killed where all hosts have one name": StartsAgain(
        kill_rank(signal.SIGKILL), ["rank {rank} on node2: it was killed by signal 9 (SIGKILL)"], prepare=name_alike),
    "an agent is killed (SIGKILL)": StartsAgain(kill_agent(signal.SIGKILL), [CLOSED]),
    # The kernel kills it when it has been stopped for as long as it may be silent.
    "an agent is stopped (SIGSTOP)": StartsAgain(kill_agent(signal.SIGSTOP), [SILENT[0], CLOSED]),
    "sshd is killed, and back after 6 s": StartsAgain(
        for_seconds(6, lambda c: kill_sshd(c, "node2", sessions=True), lambda c: start_sshd(c, "node2")), [CLOSED]),
    "sshd takes no more connections": GoesOn(lambda cluster, run, draw: kill_sshd(cluster, "node2", sessions=False)),
    "connections are reset": StartsAgain(lambda cluster, run, draw: cluster.reset("node2"), [CLOSED]),
    "a host's cable is out for 12 s": StartsAgain(
        for_seconds(12, lambda c: c.link("node2", False), lambda c: c.link("node2", True)), SILENT),
    "the launcher's cable is out for 12 s": StartsAgain(
        for_seconds(12, lambda c: c.link("node1", False), lambda c: c.link("node1", True)),
        [*SILENT, *silent("rank 3 on node3")]),
    "nothing comes from a host for 12 s": StartsAgain(
        for_seconds(12, lambda c: c.isolate("node2", receives=True), lambda c: c.rejoin("node2")), SILENT),
    # Its agent hears nothing and ends, which the launcher may be told of before it misses an answer.
    "nothing gets to a host for 12 s": StartsAgain(
        for_seconds(12, lambda c: c.isolate("node2", sends=True), lambda c: c.rejoin("node2")), [*SILENT, CLOSED]),
    "nothing gets to or from a host for 12 s": StartsAgain(
        for_seconds(12, lambda c: c.isolate("node2"), lambda c: c.rejoin("node2")), SILENT),
    "nothing passes between two hosts for 12 s": GoesOn(
        for_seconds(12, lambda c: c.cut("node2", "node3"), lambda c: c.mend("node2", "node3"))),
    "a host stands still for 12 s": StartsAgain(for_seconds(12, lambda c: c.freeze("node2"), lambda c: c.thaw("node2")), SILENT),
    "a host is switched off and on": StartsAgain(
        for_seconds(6, lambda c: c.poweroff("node2"), lambda c: c.poweron("node2")), SILENT),
    "a link delays all by 200 ms for 12 s": GoesOn(
        for_seconds(12, lambda c: c.delay("node2", 200), lambda c: c.delay("node2", 0))),
    "a link loses 1 %": GoesOn(lambda cluster, run, draw: cluster.loss("node2", 1)),
    "the launcher is killed (SIGKILL)": EndsRun(send(signal.SIGKILL), [-signal.SIGKILL]),
    "the launcher is killed, on a host without ranks": EndsRun(send(signal.SIGKILL), [-signal.SIGKILL], FAR, "/shared/out"),
    "the launcher is told to end (SIGTERM)": EndsRun(send(signal.SIGTERM), [75]),
    "an agent is told to end (SIGTERM)": EndsRun(kill_agent(signal.SIGTERM), [75]),
    "Ctrl-C twice (SIGINT)": EndsRun(send(signal.SIGINT, signal.SIGINT), [130, 75]),
    "the disk of the run's folder is full": EndsRun(
        fill_disk("node1", OUT), [4], says="No space left on device", prepare=small_disk("node1", OUT, "64m"),
        repair=make_room("node1", OUT), early=False),
    "the disk of the first rank's host is full, and the launcher elsewhere": EndsRun(
        fill_disk("node2", OUT), [4], FAR, says="No space left on device", prepare=small_disk("node2", OUT, "64m"),
        repair=make_room("node2", OUT), early=False),
    "the disk of another host's cache is full": Refused(
        without_room("node2", CACHE), 4, ["node2:/root/cache/", "No space left on device"]),
    "a host that nobody reaches, among others": Refused(name_nowhere, 5, ["host nowhere", "ssh: connect"]),
    "a host is off, among others": Refused(off, 5, ["host node3", "ssh: connect"]),
    "sshd does not run on a host": Refused(lambda cluster, case: kill_sshd(cluster, "node2", sessions=False) or [], 5,
                                           ["host node2", "Connection refused"]),
    "another version on a host": Refused(other_program(next_version), 5, ["host node2", "another version"]),
    "another build on a host": Refused(other_program(lambda program, text: text + b"x"), 5, ["host node2", "another build"]),
    "a host is named twice": Refused(lambda cluster, case: ["launch.hosts=[node1, node2, node2]"], 2, ["launch.hosts", "node2 twice"]),
    "a host has two names": Refused(lambda cluster, case: [f"launch.hosts=[node1, node2, {cluster.address('node2')}]"], 5,
                                    ["the same host as node2"]),
    "a host's key has changed": Refused(forget_host_key(["node2 ssh-ed25519 " + "A" * 24 + "IA" + "B" * 42]), 5,
                                        ["host node2", "Host key verification failed"]),
    "a host's key is not known": Refused(forget_host_key([]), 5, ["host node2", "Host key verification failed"]),
    "ssh would ask for a password": Refused(ask_for_password, 5, ["host node2", "Permission denied"]),
    "ssh would ask for a passphrase": Refused(lock_key, 5, ["host node2", "Permission denied"]),
    "only ssh reaches the launcher's host": Refused(firewall("node1"), 5, ["cannot reach host node1"]),
}


def main():
    return fault_table.main("ssh_faults.py", __doc__, list(FAULTS), lambda *place: Stage(*place).play, unavailable())


if __name__ == "__main__":
    sys.exit(main())
