"""Network namespaces that play hosts: each with an address of its own, joined by a bridge.

    with netns.Hosts(2) as hosts:
        first = hosts.start(0, ["some", "command", "--address", hosts.address(0)])
        second = hosts.start(1, [...])

Needs root, Linux and iproute2; `unavailable()` says what is missing. Everything is gone when the block is left: the
processes that were started, then the namespaces, and with them the links. What a killed test left is removed by the
next one.
"""

import os
import re
import shutil
import subprocess

_PREFIX = "ftune-test"


def unavailable():
    """Why there can be no namespaces here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip (package iproute2)"
    probe = f"{_PREFIX}-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return f"no network namespaces: {made.stderr.strip()}"
    try:
        veth = subprocess.run(["ip", "-n", probe, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"],
                              capture_output=True, text=True)
        return None if veth.returncode == 0 else f"no virtual links: {veth.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", probe], check=False)


class Hosts:
    """`count` namespaces, and one more that holds the bridge, so that nothing is changed outside of them."""

    def __init__(self, count):
        self._names = [f"{_PREFIX}-{os.getpid()}-{i}" for i in range(count)]
        self._switch = f"{_PREFIX}-{os.getpid()}-switch"
        self._processes = []

    def address(self, host):
        return f"10.203.7.{host + 1}"

    def start(self, host, command, **options):
        """A subprocess.Popen of the command on a host; the options are Popen's."""
        process = subprocess.Popen(["ip", "netns", "exec", self._names[host], *command], **options)
        self._processes.append(process)
        return process

    def output(self, host, command):
        """What a command says on a host."""
        return _ip("netns", "exec", self._names[host], *command)

    def cut(self, host):
        """Nothing reaches the host from now on, or leaves it; nobody is told."""
        _ip("-n", self._switch, "link", "set", f"host{host}", "down")

    def __enter__(self):
        _remove_leftovers()
        try:
            _ip("netns", "add", self._switch)
            _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
            _ip("-n", self._switch, "link", "set", "bridge", "up")
            for host, name in enumerate(self._names):
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", self._switch, "link", "add", f"host{host}", "type", "veth", "peer", "name", "net", "netns", name)
                _ip("-n", self._switch, "link", "set", f"host{host}", "master", "bridge", "up")
                _ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", "net")
                _ip("-n", name, "link", "set", "net", "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def _remove(self):
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for name in [*self._names, self._switch]:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def _ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _remove_leftovers():
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        match = re.fullmatch(rf"{_PREFIX}-(\d+)-\w+", name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            _ip("netns", "del", name)
