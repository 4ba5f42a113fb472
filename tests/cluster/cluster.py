"""A cluster on one machine: nodes that have their own address, files, process numbers, sshd and, if wanted, Slurm.

    with Cluster(3, work / "cluster", tools=build / "tests", share=[work]) as cluster:
        cluster.run("node1", ["ssh", "node2", "hostname"]).stdout
        job = cluster.popen("node1", [...], user="ft", cwd=work)
        cluster.poweroff("node3")

Nodes are node1, node2, …: node1 is the user's machine. Each sees this machine's files and keeps what it writes to itself,
but for /shared and the folders of `share` (PATH, or PATH:TARGET), which are the same everywhere; folders of `hide` are
empty on all nodes but node1. A file that is made outside after the cluster has come up is sure to be seen only in shared
folders. Users are root and ft; both reach every node by ssh without a password.

Needs root, Linux namespaces and the packages of third_party/apt-cluster.txt; `unavailable()` says what is missing. Everything ends
with the block or with this process, however it ends: all hangs on one process, which the kernel kills with this one.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import slurm_daemons

_FABRIC = Path(__file__).resolve().parent / "fabric.sh"
_COMMANDS = ("ip", "nft", "ss", "nsenter", "unshare", "pivot_root", "sshd", "ssh", "ssh-keygen")
_BOOT_SECONDS = 60  # until a hang is given up; a second is enough
_NETWORK = "10.77.0"
# What belongs to a node, not to a test.
_DAEMONS = {"sshd", "munged", "slurmd", "slurmctld", "slurmscriptd", "slurmstepd", "sleep"}
_SSHD_CONFIG = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
"""


def unavailable(slurm=False):
    """Why there can be no cluster here, or None."""
    if os.geteuid() != 0:
        return "a cluster needs root"
    wanted = _COMMANDS + (slurm_daemons.COMMANDS if slurm else ())
    missing = [command for command in wanted if shutil.which(command, path=_path()) is None]
    if missing:
        return f"a cluster needs {', '.join(missing)} (third_party/install.sh --cluster installs what has them)"
    probe = ("mount --make-rprivate / && mount -t tmpfs x /mnt && mkdir /mnt/u /mnt/w /mnt/r && "
             "mount -t overlay x /mnt/r -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w && "
             "ip link add name probe0 type bridge && ip link add name probe1 type veth peer name probe2")
    done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "sh", "-c", probe],
                          capture_output=True, text=True)
    return None if done.returncode == 0 else f"no namespaces or overlay file systems: {done.stderr.strip()}"


@dataclass(frozen=True)
class Process:
    node: str
    pid: int  # on this machine
    name: str
    command: str


class Cluster:
    def __init__(self, count, state, tools, slurm=False, share=(), hide=(), slurm_options=None):
        """`state` is a folder that is made anew; `tools` has node_run and link_impair; `slurm_options` are those of
        slurm_daemons.Daemons."""
        self.nodes = [f"node{i + 1}" for i in range(count)]
        self.state, self._tools = Path(state).resolve(), Path(tools).resolve()
        folders = [f"share {folder}" for folder in [f"{self.shared()}:/shared", *share]] + [f"hide {folder}" for folder in hide]
        # By where they are on a node, so that one may lie in another.
        self._folders = sorted(folders, key=lambda line: line.split(" ", 1)[1].rpartition(":")[2])
        self._fabric = None  # the process that all hangs on
        self._impairments = {}
        self._started = []
        self.slurm = slurm_daemons.Daemons(self, **(slurm_options or {})) if slurm else None

    def __enter__(self):
        shutil.rmtree(self.state, ignore_errors=True)
        try:
            self._write_configuration()
            self._start_fabric()
            if self.slurm:
                self.slurm.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._fabric:
            self._fabric.kill()
            self._fabric.wait()
        for process in self._started:  # their commands are gone
            if process.poll() is None:
                process.kill()
                process.wait()
        self._fabric, self._started, self._impairments = None, [], {}

    def address(self, node):
        return f"{_NETWORK}.{10 + self._number(node)}"

    def path(self, node, path):
        """A file of a node, as it can be opened here."""
        return Path(f"/proc/{self._init(node)}/root") / str(path).lstrip("/")

    def log(self, node, name):
        """A file of a node's /var/log/cluster."""
        return self.state / "log" / node / name

    def shared(self):
        """The nodes' /shared."""
        return self.state / "shared"

    def popen(self, node, command, user="root", cwd=None, environment=None, **options):
        """A subprocess.Popen of a command on a node: signals sent to it go to the command, and it ends as that does. The
        environment is that of a fresh login, and `environment`; `cwd` is the user's home if not given."""
        words = [str(self._tools / "node_run"), "-u", user]
        if cwd is not None:
            words += ["-C", str(cwd)]
        for name, value in (environment or {}).items():
            words += ["-e", f"{name}={value}"]
        process = subprocess.Popen([*words, str(self._init(node)), *map(str, command)], **options)
        self._started.append(process)
        return process

    def run(self, node, command, text=None, timeout=120, check=False, **options):
        """→ what subprocess.run gives, with both outputs as text."""
        options = {"stdin": subprocess.PIPE if text is not None else subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE, "text": True, **options}
        process = self.popen(node, command, **options)
        try:
            out, err = process.communicate(text, timeout=timeout)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
            self._started.remove(process)
        done = subprocess.CompletedProcess(command, process.returncode, out, err)
        if check and done.returncode != 0:
            raise RuntimeError(f"{node}: {' '.join(map(str, command))}: exit status {done.returncode}\n{out}{err}")
        return done

    def processes(self, node, name=None):
        """What runs on a node but for its own daemons; with `name`, of this name alone."""
        return [process for process in self._all_processes(node)
                if (process.name == name if name else process.name not in _DAEMONS)]

    def is_on(self, node):
        return self._find_init(node) is not None

    def left(self, name):
        """Processes of this name on all nodes that are on."""
        return [process for node in self.nodes if self.is_on(node) for process in self.processes(node, name)]

    # Faults.

    def link(self, node, up):
        """Takes the cable out, or puts it in: silence, and the node itself sees it."""
        self._in_fabric("ip", "link", "set", self._port(node), "up" if up else "down")
        if up:  # a kernel believes a while longer what it has learned of a host that it did not reach
            for other in self.nodes:
                self._in_fabric("ip", "-n", other, "neigh", "flush", "all")

    def cut(self, a, b, both=True):
        """Nothing goes from a to b any more, nor, if `both`, back; nobody is told. Undone by mend."""
        pairs = [(a, b), (b, a)] if both else [(a, b)]
        self._drop(f"cut_{a}_{b}", [f'iifname "{self._port(x)}" oifname "{self._port(y)}" drop' for x, y in pairs])

    def mend(self, a, b):
        self._undrop(f"cut_{a}_{b}")

    def isolate(self, node, receives=False, sends=False):
        """Nothing goes from or to a node any more, but for the ways that are still said to work. Undone by rejoin."""
        port, rules = self._port(node), []
        if not sends:
            rules.append(f'iifname "{port}" drop')
        if not receives:
            rules.append(f'oifname "{port}" drop')
        self._drop(f"isolate_{node}", rules)

    def rejoin(self, node):
        self._undrop(f"isolate_{node}")

    def loss(self, node, percent):
        """Loses so much of what is sent to a node; 0: nothing any more."""
        self._undrop(f"loss_{node}")
        if percent:
            which = "" if percent >= 100 else f"numgen random mod 1000 < {round(10 * percent)}"
            self._drop(f"loss_{node}", [f'oifname "{self._port(node)}" {which} drop'])

    def delay(self, node, milliseconds, jitter=0, loss=0, seed=1):
        """Holds all that a node sends or receives for so long, give or take `jitter`, and loses `loss` percent; 0 and no loss:
        as it was."""
        port, number = self._port(node), self._number(node)
        if node in self._impairments:
            self._impairments.pop(node).kill()
            self._in_fabric("ip", "link", "delete", f"x{number}")
            self._in_fabric("ip", "link", "set", port, "master", "br0")
        if not milliseconds and not loss:
            return
        self._in_fabric("ip", "link", "set", port, "nomaster")
        self._in_fabric("ip", "link", "add", f"x{number}", "type", "veth", "peer", "name", f"y{number}")
        self._in_fabric("ip", "link", "set", f"y{number}", "master", "br0", "up")
        self._in_fabric("ip", "link", "set", f"x{number}", "up")
        words = [self._tools / "link_impair", port, f"x{number}", milliseconds, jitter, loss, seed]
        self._impairments[node] = subprocess.Popen([*self._enter_fabric(), *map(str, words)], stdout=subprocess.DEVNULL)
        self._started.append(self._impairments[node])

    def rate(self, node, rate):
        """Limits what is sent to a node, to tc's "8mbit", say; None: no more."""
        port = self._port(node)
        self._in_fabric("tc", "qdisc", "delete", "dev", port, "root", check=False)
        if rate:
            self._in_fabric("tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", rate, "burst", "64k", "latency", "400ms")

    def reset(self, node):
        """Resets all TCP connections of a node."""
        self.run(node, ["ss", "-K", "state", "established"], check=True)

    def freeze(self, node):
        """Stops all processes of a node; its kernel still answers."""
        for _ in range(2):  # also what was started meanwhile
            self._signal_all(node, signal.SIGSTOP)

    def thaw(self, node):
        self._signal_all(node, signal.SIGCONT)

    def crash(self, node):
        """Ends all processes of a node at once; their connections are closed by the kernel."""
        init = self._init(node)
        os.kill(init, signal.SIGKILL)
        _wait_until(lambda: _state(init) in ("Z", None), f"{node} does not end")
        self.log(node, "ready").unlink(missing_ok=True)

    def poweroff(self, node):
        """The same, of which the others hear nothing."""
        self.link(node, False)
        self.crash(node)

    def poweron(self, node):
        """Boots a node again, with the files that it had, but for those in memory (/tmp, /run); Slurm too."""
        self.link(node, True)
        subprocess.run([*self._enter_fabric(), str(_FABRIC), "start-node", str(self._number(node))], check=True,
                       env=self._fabric_environment())
        self._await_node(node)
        if self.slurm:
            self.slurm.start_node(node)

    # How it comes up.

    def _write_configuration(self):
        etc = self.state / "etc"
        for folder in (etc, self.state / "fs", self.shared(), *(self.state / "log" / node for node in self.nodes)):
            folder.mkdir(parents=True)
        self.shared().chmod(0o1777)
        names = "".join(f"{self.address(node)} {node}\n" for node in self.nodes)
        (etc / "hosts").write_text("127.0.0.1 localhost\n" + names)
        (etc / "sshd_config").write_text(_SSHD_CONFIG)
        known = []
        for key in ["id_ed25519", *(f"hostkey_{self._number(node)}" for node in self.nodes)]:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", etc / key], check=True)
        for node in self.nodes:
            kind, public = (etc / f"hostkey_{self._number(node)}.pub").read_text().split()[:2]
            known.append(f"{node},{self.address(node)} {kind} {public}\n")
        (etc / "ssh_known_hosts").write_text("".join(known))

    def _fabric_environment(self):
        return {"PATH": _path(), "STATE": str(self.state), "NETWORK": _NETWORK, "FOLDERS": "\n".join(self._folders)}

    def _start_fabric(self):
        with open(self.state / "log" / "fabric.log", "w") as log:
            self._fabric = subprocess.Popen(
                ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--", str(_FABRIC), "fabric",
                 str(len(self.nodes))], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=self._fabric_environment(), preexec_fn=_die_with_parent)
        for node in self.nodes:
            self._await_node(node)

    def _await_node(self, node):
        def is_up():
            if self._fabric.poll() is not None:
                raise RuntimeError(f"the cluster has ended: {(self.state / 'log' / 'fabric.log').read_text()}")
            return self.log(node, "ready").exists() and self._find_init(node)
        try:
            _wait_until(is_up, f"{node} does not come up")
        except TimeoutError as error:
            raise RuntimeError(f"{error}: {self.log(node, 'init.log').read_text()}") from error

    # Where things are.

    def _number(self, node):
        return self.nodes.index(node) + 1

    def _port(self, node):
        return f"p{self._number(node)}"

    def _fabric_init(self):
        return _children(self._fabric.pid)[0]

    def _find_init(self, node):
        """The process, as this machine numbers it, that is a node's first; None where it is off."""
        for pid in _children(self._fabric_init()):
            if _command(pid)[-2:] == ["node", str(self._number(node))]:
                for child in _children(pid):
                    if _state(child) not in ("Z", None):
                        return child
        return None

    def _init(self, node):
        init = self._find_init(node)
        if init is None:
            raise RuntimeError(f"{node} is off")
        return init

    def _all_processes(self, node):
        init = self._init(node)
        space = os.readlink(f"/proc/{init}/ns/pid")
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                if pid == init or os.readlink(f"/proc/{pid}/ns/pid") != space:
                    continue
                name = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue  # it has ended, or is about to
            if _state(pid) not in ("Z", None):
                found.append(Process(node, pid, name, " ".join(_command(pid))))
        return found

    def _signal_all(self, node, number):
        for process in self._all_processes(node):
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                pass

    # The fabric's network.

    def _enter_fabric(self):
        return ["nsenter", "-t", str(self._fabric_init()), "-m", "-n", "-p", "--"]

    def _in_fabric(self, *command, text=None, check=True):
        done = subprocess.run([*self._enter_fabric(), *command], input=text, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

    def _drop(self, table, rules):
        lines = "\n".join(["type filter hook forward priority 0;", *rules])
        self._in_fabric("nft", "-f", "-", text=f"table bridge {table} {{ chain forward {{\n{lines}\n}}\n}}\n")

    def _undrop(self, table):
        self._in_fabric("nft", "delete", "table", "bridge", table, check=False)


def _path():
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


def _state(pid):
    """A letter of ps, or None where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def _wait_until(condition, otherwise, seconds=_BOOT_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{otherwise}, after {seconds} s")
        time.sleep(0.02)
