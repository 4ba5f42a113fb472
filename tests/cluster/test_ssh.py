#!/usr/bin/env python3
"""ftune on several hosts over SSH, without a shared disk: what it learns there is what one rank learns; what is wrong with a
host is said before anything is started; a host that is lost is done without, and taken back. More faults: ssh_faults.py.
"""

import math
import os
import random
import shutil
import signal
from pathlib import Path

import ssh_faults
from cluster import Cluster
from cluster_case import main, wait_until
from host_run import OUT, HostRun
from run_files import agent_on, none_left, ranks_on

FAULTS = ["a rank is killed (SIGKILL)", "an agent is killed (SIGKILL)", "a host is switched off and on",
          "a link delays all by 200 ms for 12 s", "the launcher is killed (SIGKILL)", "the launcher is killed, on a host without ranks"]


def hosts(case, count):
    return Cluster(count, case.folder.with_name(f"{case.folder.name}-cluster"), tools=Path(case.ftune).parent / "tests",
                   share=[case.folder.resolve()])


def losses(lines):
    return [line["loss"] for line in lines if line["event"] == "train"]


def recipe(case, text=""):
    case.recipe(text, adapter=False)
    path = case.folder / "recipe.yaml"
    path.write_text(path.read_text().replace("global_batch_size: 2, max_steps: 3", "global_batch_size: 12, max_steps: 6")
                    .replace("sequence_len: 128", "sequence_len: 128, packing: false"))


def test_curve(case):
    """Two, three and four hosts of two ranks, by a list and by a host file; and where the same is called by its address."""
    recipe(case)
    done = case.run("train", "recipe.yaml", "output_dir=one")
    assert done.returncode == 0, done.stderr
    expected = losses(case.log("one"))
    (case.folder / "hostfile").write_text("# four\nnode1 slots=2\nnode2 slots=1\nnode3 slots=2\n\nnode4 slots=1\n")
    with hosts(case, 4) as cluster:
        for words in (["launch.hosts=[node1, node2]", "launch.ranks_per_host=2"],
                      ["launch.hosts=[node3, node1, root@node2]", "launch.ranks_per_host=2", "parallel.zero=3"],
                      ["launch.hosts=[node1, node2, node3, node4]", "launch.ranks_per_host=2", "parallel.pipeline=2"],
                      [f"launch.hosts=[{{host: node2, slots: 2}}, {cluster.address('node1')}]", "parallel.tensor=3"],
                      ["launch.hostfile=hostfile"],
                      ["launch.hostfile=hostfile", "launch.exclude=node3@node4"]):
            cluster.run("node1", ["rm", "-rf", OUT], check=True)
            run = HostRun(cluster, case, "train", "recipe.yaml", *words)
            run.end(0)
            none_left(cluster)
            ours = losses(run.log())
            assert len(ours) == len(expected), (words, ours)
            assert all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(ours, expected, strict=True)), (words, ours, expected)
            for other in cluster.nodes[1:]:
                assert not cluster.path(other, OUT).exists(), other


def test_tls(case):
    """Ranks meet by connections that are encrypted: each goes to its own host's agent, which has one to the first's."""
    recipe(case)
    done = case.run("train", "recipe.yaml", "output_dir=one", "train.max_steps=200", "train.num_epochs=10000")
    assert done.returncode == 0, done.stderr
    expected = losses(case.log("one"))
    with hosts(case, 3) as cluster:
        run = HostRun(cluster, case, "train", "recipe.yaml", "train.max_steps=200", "train.num_epochs=10000",
                      "launch.hosts=[node1, node2, node3]", "launch.ranks_per_host=2", "launch.tls=true")
        run.await_step(2)
        for node in cluster.nodes:
            rank = ranks_on(cluster, node)[0]
            variables = Path(f"/proc/{rank.pid}/environ").read_text().split("\0")
            assert "MASTER_ADDR=127.0.0.1" in variables, variables
            assert f"FTUNE_HOST_ADDRESS={cluster.address(node)}" in variables, variables
        run.end(0)
        none_left(cluster)
        ours = losses(run.log())
        assert len(ours) == len(expected) and all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(ours, expected)), ours
    refused = case.run("train", "recipe.yaml", "launch.tls=true")
    assert refused.returncode == 2 and "launch.tls" in refused.stderr, refused.stderr


def test_faults(case):
    """The cause is named, nothing is left running, and the weights are those of a run that nothing has disturbed; to repeat
    one: ssh_faults.py --times 1 --seed SEED 'FAULT'."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    stage = ssh_faults.Stage(case.ftune, case.folder, steps=180)
    for name in FAULTS:
        print(f"{name}: {stage.play(name, random.Random(f'{name} {seed}'))}", flush=True)


def test_fewer_hosts(case):
    """With min_hosts the run goes on with those that are left, on the same batches, and with all when they are back."""
    stage = ssh_faults.Stage(case.ftune, case.folder, steps=600)
    with stage.cluster() as cluster:
        run = stage.start(cluster, "launch.min_hosts=2", "train.max_steps=4000")
        run.await_step(50)
        cluster.poweroff("node2")
        wait_until(lambda: run.steps(attempt=2), "steps on two hosts", 120)
        cluster.poweron("node2")
        wait_until(lambda: run.steps(attempt=3), "steps on three hosts again", 120)
        run.process.send_signal(signal.SIGTERM)
        run.end(75)
        none_left(cluster)
        starts = [line for line in run.log() if line["event"] == "start"]
        assert [line["ranks"] for line in starts] == [4, 2, 4], starts
        steps = {}
        for line in run.log():
            if line["event"] == "train":
                # What a step was trained on does not depend on who was there.
                assert steps.setdefault(line["step"], line["trained_tokens"]) == line["trained_tokens"], line
        assert sorted(steps) == list(range(1, len(steps) + 1))


def test_refused(case):
    """One message that says which host, and what is wrong with it; nothing is started anywhere."""
    stage = ssh_faults.Stage(case.ftune, case.folder, steps=600)
    for name, fault in ssh_faults.FAULTS.items():
        if isinstance(fault, ssh_faults.Refused):
            print(f"{name}: {stage.play(name, random.Random(0)).said}", flush=True)


def test_refused_recipe(case):
    """The same of what the recipe says."""
    recipe(case)
    with hosts(case, 3) as cluster:
        def refused(code, says, *words, user="root"):
            done = cluster.run("node1", [case.ftune, "train", "recipe.yaml", "output_dir=/tmp/none", *words], user=user,
                               cwd=case.folder.resolve(), environment={"XDG_CACHE_HOME": "/tmp/cache"})
            errors = [line for line in done.stderr.splitlines() if "error:" in line]
            assert done.returncode == code and len(errors) == 1, (done.returncode, done.stderr)
            for part in says:
                assert part in errors[0], (part, errors)
            none_left(cluster)

        two = ["launch.hosts=[node1, node2]"]
        refused(5, ["host nowhere", "nowhere"], "launch.hosts=[node1, nowhere]")
        refused(5, ["host node2", "No such file"], *two, "launch.program=/opt/none/ftune")
        cluster.path("node2", "/usr/local/bin/uname").write_text("#!/bin/sh\necho riscv64\n")
        cluster.path("node2", "/usr/local/bin/uname").chmod(0o755)
        refused(5, ["host node2", "riscv64", "another kind"], *two, "launch.program=/opt/none/ftune", "launch.copy_program=true")
        cluster.run("node2", ["rm", "/usr/local/bin/uname"], check=True)
        refused(2, ["launch.kind", "no hosts are named"], "launch.kind=ssh")
        refused(2, ["missing-file"], "launch.hostfile=missing-file")
        cluster.run("node2", ["mkdir", "/tmp/away"], check=True)
        cluster.run("node2", ["mv", "/etc/hostname", "/tmp/away"], check=True)
        refused(4, ["host node2", "does not have", "/etc/hostname"], *two, "data.train=[{path: /etc/hostname, format: text}]")


def test_program(case):
    """A host that has no ftune, or another one, is sent this one, once, and nothing but that."""
    recipe(case)
    with hosts(case, 3) as cluster:
        programs = "/root/.cache/ftune/programs"
        words = ["launch.hosts=[node1, node2, node3]", "launch.program=/opt/ftune", "launch.copy_program=true"]
        cluster.run("node2", ["mkdir", "-p", "/opt"], check=True)
        other = cluster.path("node2", "/opt/ftune")
        shutil.copy(case.ftune, other)
        with open(other, "ab") as program:
            program.write(b"another build")
        times = set()
        for attempt in ("first", "second"):
            cluster.run("node1", ["rm", "-rf", OUT], check=True)
            HostRun(cluster, case, "train", "recipe.yaml", *words).end(0)
            none_left(cluster)
            for node in ("node2", "node3"):
                folders = list(cluster.path(node, programs).iterdir())
                assert len(folders) == 1, (attempt, folders)
                assert (folders[0] / "ftune").read_bytes() == Path(case.ftune).read_bytes(), (attempt, node)
                times.add((node, (folders[0] / "ftune").stat().st_ino))
        assert len(times) == 2, times
        assert not cluster.path("node1", programs).exists()


def relay_port(cluster):
    """That on node1 to which the agent of node2 has connections."""
    pid = agent_on(cluster, "node2").pid
    sockets = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        other, inode = line.split()[2], line.split()[9]
        if f"socket:[{inode}]" in sockets and not other.startswith(("0100007F", "00000000")):
            return int(other.partition(":")[2], 16)
    raise AssertionError("it has none")


def test_stranger_with_tls(case):
    """The same of one that speaks TLS: named by its own address, though it has come by the relay."""
    recipe(case)
    say = "import socket, ssl, sys\nwith ssl._create_unverified_context().wrap_socket(socket.create_connection(('node1', int(sys.argv[1])))) as s:\n" \
          "    s.sendall(b'give me a key, whichever')\n    print(s.recv(100))\n"
    with hosts(case, 3) as cluster:
        run = HostRun(cluster, case, "train", "recipe.yaml", "train.max_steps=400", "train.num_epochs=100000",
                      "launch.hosts=[node1, node2]", "launch.tls=true")
        run.await_step(1)
        port = relay_port(cluster)
        for _ in range(2):
            done = cluster.run("node3", ["python3", "-c", say, str(port)])
            assert done.stdout == "b''\n", done
        said = run.end(0)
        assert said.count("that does not know the run's token was refused") == 1, said
        assert f"a connection from {cluster.address('node3')} that does not" in said, said
        none_left(cluster)


def test_stranger(case):
    """Who does not know the run's token gets nothing from the ranks' store, and the run tells of it once."""
    recipe(case)
    with hosts(case, 2) as cluster:
        run = HostRun(cluster, case, "train", "recipe.yaml", "train.max_steps=400",
                      "train.num_epochs=100000", "launch.hosts=[node1, node2]")
        run.await_step(1)
        rank = ranks_on(cluster, "node2")[0]
        port = dict(entry.split("=", 1) for entry in Path(f"/proc/{rank.pid}/environ").read_text().split("\0") if entry)["MASTER_PORT"]
        for _ in range(2):
            done = cluster.run("node2", ["bash", "-c", f"exec 3<>/dev/tcp/node1/{port} && echo 'give me a key, whichever' >&3 && cat <&3"])
            assert done.stdout == "", done
        said = run.end(0)
        assert said.count(f"a connection from {cluster.address('node2')} that does not know the run's token was refused") == 1, said
        none_left(cluster)


if __name__ == "__main__":
    main(globals(), __doc__)
