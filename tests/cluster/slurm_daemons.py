"""Slurm on the nodes of a cluster: munged and slurmd on each, slurmctld on node1."""

import secrets
import subprocess
import time

COMMANDS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "scancel", "scontrol", "sinfo", "squeue")
_START_SECONDS = 60

# Times are short, so that tests see faults in seconds; but a step that will not end must not drain its node.
_CONFIG = """\
ClusterName=cluster
SlurmctldHost=node1
SlurmUser=slurm
AuthType=auth/munge
CryptoType=crypto/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/cluster/slurmctld.log
SlurmdLogFile=/var/log/cluster/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
SlurmctldTimeout=10
MessageTimeout=5
TCPTimeout=2
KillWait={kill_wait}
UnkillableStepTimeout=120
InactiveLimit=0
WaitTime=0
BatchStartTimeout=10
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
GresTypes=gpu
NodeName=node[1-{nodes}] CPUs={cpus} RealMemory=4000{gres} Feature=big State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""
# slurmd 22.05 starts a cgroup plugin even if nothing uses it, and "autodetect" needs /sys/fs/cgroup.
_CGROUP_CONFIG = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
_START_NODE = """set -e
chown -R munge:munge /etc/munge; chmod 700 /etc/munge; chmod 400 /etc/munge/munge.key
install -d -o munge -g munge -m 755 /run/munge
install -d -o munge -g munge -m 711 /var/lib/munge
install -d -o munge -g munge -m 700 /var/log/munge
install -d -m 755 /var/spool/slurmd
for ((i = 0; i < {gpus}; i++)); do [ -e /dev/gpu$i ] || mknod -m 666 /dev/gpu$i c 1 3; done
setpriv --reuid=munge --regid=munge --clear-groups -- munged --num-threads=2
if [ "$(hostname)" = node1 ]; then
  install -d -o slurm -g slurm -m 755 /var/spool/slurmctld
  touch /var/log/cluster/slurmctld.log; chown slurm:slurm /var/log/cluster/slurmctld.log
  slurmctld
fi
slurmd
"""


class Daemons:
    """`cpus` and `gpus` are what each node claims to have; `kill_wait` is Slurm's time between TERM and KILL, in seconds."""

    def __init__(self, cluster, cpus=4, gpus=0, kill_wait=3):
        self._cluster, self._gpus = cluster, gpus
        gres = f" Gres=gpu:{gpus}" if gpus else ""
        count = len(cluster.nodes)
        self._files = {
            "slurm.conf": _CONFIG.format(nodes=count, cpus=cpus, gres=gres, kill_wait=kill_wait),
            "cgroup.conf": _CGROUP_CONFIG,
            "gres.conf": f"NodeName=node[1-{count}] Name=gpu File=/dev/gpu[0-{gpus - 1}]\n" if gpus else ""}
        self._key = secrets.token_bytes(1024)

    def start(self):
        for node in self._cluster.nodes:
            self._configure(node)
        starts = [(node, self._start(node)) for node in self._cluster.nodes]
        for node, process in starts:
            self._check_started(node, process)
        self.await_idle()

    def start_node(self, node):
        """Again, on a node that was off."""
        self._check_started(node, self._start(node))

    def await_idle(self, seconds=_START_SECONDS):
        """Until no node has work or is missing."""
        end = time.monotonic() + seconds
        while True:
            states = self._cluster.run("node1", ["sinfo", "-h", "-N", "-o", "%T"]).stdout.split()
            if states == ["idle"] * len(self._cluster.nodes):
                return
            if time.monotonic() > end:
                raise RuntimeError(f"Slurm's nodes are {states}")
            time.sleep(0.05)

    def _configure(self, node):
        slurm, munge = self._cluster.path(node, "/etc/slurm"), self._cluster.path(node, "/etc/munge")
        for folder in (slurm, munge):
            folder.mkdir(exist_ok=True)
        for name, text in self._files.items():
            (slurm / name).write_text(text)
        (munge / "munge.key").write_bytes(self._key)

    def _start(self, node):
        return self._cluster.popen(node, ["bash", "-c", _START_NODE.replace("{gpus}", str(self._gpus))], cwd="/",
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def _check_started(self, node, process):
        # The daemons that it leaves keep no end of the pipe open: they have closed what they had.
        _, said = process.communicate(timeout=_START_SECONDS)
        if process.returncode != 0:
            raise RuntimeError(f"Slurm does not start on {node}: {said}")
