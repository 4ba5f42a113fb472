"""The cluster that other tests run on does what it says: nodes, faults, Slurm, and nothing is left of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cluster_case import cluster_of, main, wait_until

SSH = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=2"]


def connects(cluster, a, b):
    """Whether b's sshd answers a within two seconds."""
    return cluster.run(a, ["timeout", "2", "bash", "-c", f"exec 3<>/dev/tcp/{b}/22; read -r line <&3"]).returncode == 0


def await_connection(cluster, a, b):
    """What a kernel has learned of a host that it did not reach it may believe a while longer."""
    wait_until(lambda: connects(cluster, a, b), f"{a} reaches {b}")


LISTEN = """import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 9999)); s.settimeout(float(sys.argv[1]))
print("ready", flush=True)
try: print(s.recv(9).decode())
except TimeoutError: pass
"""
SEND = "import socket, sys; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'word', (sys.argv[1], 9999))"


def hears(cluster, a, b, seconds=2):
    """Whether a hears what b sends, which needs no answer: they know each other's hardware addresses by now."""
    listener = cluster.popen(a, ["python3", "-c", LISTEN, seconds], stdout=subprocess.PIPE, text=True)
    assert listener.stdout.readline() == "ready\n"
    cluster.run(b, ["python3", "-c", SEND, a], check=True)
    return listener.communicate(timeout=60)[0] == "word\n"


def test_nodes(case):
    hidden = case.folder.resolve() / "hidden"
    hidden.mkdir()
    (hidden / "file").write_text("")
    with cluster_of(case, 3, hide=[hidden]) as cluster:
        for a in cluster.nodes:
            for b in cluster.nodes:
                said = cluster.run(a, [*SSH, b, "hostname"]).stdout
                assert said == f"{b}\n", (a, b, said)
        assert cluster.run("node1", [*SSH, "node3", "id -un; hostname"], user="ft").stdout == "ft\nnode3\n"
        cluster.run("node2", ["touch", "/tmp/mine", "/root/mine", "/var/mine"], check=True)
        assert cluster.run("node3", ["sh", "-c", "ls /tmp/mine /root/mine /var/mine"]).stdout == ""
        assert not Path("/root/mine").exists() and not Path("/var/mine").exists()
        assert cluster.path("node2", "/root/mine").exists()
        cluster.run("node2", ["touch", "/shared/ours"], check=True)
        assert cluster.run("node3", ["ls", "/shared"]).stdout == "ours\n" and (cluster.shared() / "ours").exists()
        assert cluster.run("node1", ["ls", hidden]).stdout == "file\n" and cluster.run("node2", ["ls", hidden]).stdout == ""


def test_commands(case):
    """What is run on a node ends as it does there, and with its caller."""
    with cluster_of(case, 1) as cluster:
        assert cluster.run("node1", ["sh", "-c", "exit 7"]).returncode == 7
        assert cluster.run("node1", ["sh", "-c", "kill -SEGV $$"]).returncode == -signal.SIGSEGV
        assert cluster.run("node1", ["no-such-command"]).returncode == 127
        assert cluster.run("node1", ["cat"], text="in").stdout == "in"
        assert cluster.run("node1", ["sh", "-c", 'echo "$A $HOME"; pwd'], cwd="/var", environment={"A": "x y"}).stdout == "x y /root\n/var\n"
        for number, code in ((signal.SIGTERM, 3), (signal.SIGUSR1, 4)):
            process = cluster.popen("node1", ["sh", "-c", "trap 'exit 3' TERM; trap 'exit 4' USR1; echo go; while :; do sleep 0.01; done"],
                                    stdout=subprocess.PIPE, text=True)
            process.stdout.readline()
            process.send_signal(number)
            assert process.wait(timeout=60) == code
        process = cluster.popen("node1", ["tail", "-f", "/dev/null"])
        wait_until(lambda: cluster.processes("node1", "tail"), "tail runs")
        assert [found.command for found in cluster.processes("node1")] == ["tail -f /dev/null"]
        assert cluster.left("tail")
        process.kill()
        wait_until(lambda: not cluster.left("tail"), "it ends with node_run")


def test_network_faults(case):
    with cluster_of(case, 3) as cluster:
        cluster.link("node3", False)
        assert not connects(cluster, "node1", "node3")
        cluster.link("node3", True)
        await_connection(cluster, "node1", "node3")

        cluster.cut("node1", "node2")
        assert not connects(cluster, "node1", "node2")
        await_connection(cluster, "node3", "node2")
        cluster.mend("node1", "node2")
        await_connection(cluster, "node1", "node2")

        cluster.cut("node2", "node1", both=False)
        assert hears(cluster, "node2", "node1", seconds=30) and not hears(cluster, "node1", "node2")
        cluster.mend("node2", "node1")
        assert hears(cluster, "node1", "node2", seconds=30)

        cluster.isolate("node3", receives=True)
        assert hears(cluster, "node3", "node1", seconds=30) and not hears(cluster, "node1", "node3")
        cluster.rejoin("node3")
        cluster.isolate("node2")
        assert not connects(cluster, "node3", "node2")
        cluster.rejoin("node2")
        await_connection(cluster, "node3", "node2")

        cluster.delay("node2", 100)
        begin = time.monotonic()
        await_connection(cluster, "node1", "node2")
        assert time.monotonic() - begin >= 0.2  # a handshake, both ways
        cluster.delay("node2", 0)
        await_connection(cluster, "node1", "node2")

        cluster.loss("node2", 100)
        assert not connects(cluster, "node1", "node2")
        cluster.loss("node2", 0)
        await_connection(cluster, "node1", "node2")

        session = cluster.popen("node1", [*SSH, "node2", "echo go; tail -f /dev/null"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, text=True)
        session.stdout.readline()
        cluster.reset("node2")
        assert session.wait(timeout=60) == 255


def test_node_faults(case):
    with cluster_of(case, 2) as cluster:
        process = cluster.popen("node2", ["sh", "-c", "while :; do echo x; sleep 0.01; done"], stdout=subprocess.PIPE)
        process.stdout.read(1)
        cluster.freeze("node2")
        assert not connects(cluster, "node1", "node2")
        cluster.thaw("node2")
        await_connection(cluster, "node1", "node2")

        cluster.run("node2", ["touch", "/root/kept", "/tmp/lost"], check=True)
        cluster.poweroff("node2")
        assert process.wait(timeout=60) == -signal.SIGKILL
        assert not connects(cluster, "node1", "node2")
        cluster.poweron("node2")
        assert cluster.run("node1", [*SSH, "node2", "ls /root/kept /tmp"], timeout=60).stdout == "/root/kept\n\n/tmp:\n"


def test_slurm(case):
    with cluster_of(case, 3, slurm=True, slurm_options={"gpus": 2}) as cluster:
        said = cluster.run("node1", ["srun", "-N3", "--ntasks-per-node=2", "sh", "-c", "echo $SLURM_PROCID$(hostname)"], user="ft").stdout
        assert sorted(said.split()) == ["0node1", "1node1", "2node2", "3node2", "4node3", "5node3"], said
        gpus = cluster.run("node1", ["srun", "--gpus-per-node=2", "printenv", "CUDA_VISIBLE_DEVICES"], user="ft").stdout
        assert gpus == "0,1\n", gpus
        script = "#!/bin/sh\nsrun -l hostname\nexit 3\n"
        done = cluster.run("node1", ["sbatch", "--wait", "--nodes=2", "--output=/shared/out"], user="ft", text=script)
        assert done.returncode == 3, done
        assert sorted((cluster.shared() / "out").read_text().splitlines()) == ["0: node1", "1: node2"]
        cluster.poweroff("node3")
        cluster.poweron("node3")
        cluster.slurm.await_idle()
        assert cluster.run("node1", ["srun", "-w", "node3", "hostname"], user="ft").stdout == "node3\n"


def traces():
    """What a cluster could leave on this machine."""
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True).stdout.splitlines()
    return len(links), Path("/proc/mounts").read_text().count("\n"), sorted(os.listdir("/run/netns") if Path("/run/netns").exists() else [])


def test_nothing_left(case):
    """When the test that has a cluster is killed, all of it is gone."""
    before = traces()
    state = case.folder / "state"
    code = ("import sys, time; sys.path.insert(0, sys.argv[1]); from cluster import Cluster\n"
            "with Cluster(2, sys.argv[2], sys.argv[3], slurm=True) as cluster:\n"
            "    cluster.popen('node2', ['tail', '-f', '/dev/null'])\n"
            "    print('up', flush=True)\n"
            "    time.sleep(600)\n")
    holder = subprocess.Popen([sys.executable, "-c", code, str(Path(__file__).parent), str(state), str(Path(case.ftune).parent / "tests")],
                              stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "up\n"

    def of_cluster():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                environment = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if f"STATE={state.resolve()}".encode() in environment or "node_run" in words[0]:
                found.append(words)
        return found

    assert of_cluster()
    holder.kill()
    holder.wait()
    wait_until(lambda: not of_cluster(), "no process is left")
    wait_until(lambda: traces() == before, "no link, mount or namespace is left")


if __name__ == "__main__":
    main(globals(), __doc__, slurm=True)
