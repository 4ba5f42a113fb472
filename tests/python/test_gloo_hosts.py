#!/usr/bin/env python3
"""Collectives over gloo between hosts, which network namespaces play: all of them to the bit, and what the others say
when one host's process is killed or its link cut.

    test_gloo_hosts.py --rank GLOO_RANK --work FOLDER

Exit status 77, which CTest counts as skipped, where there can be no namespaces.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import netns

HOSTS = 3


def start(hosts, arguments, what):
    """A rank on each host → (the processes, the folder of their store)"""
    folder = arguments.work / what
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return [hosts.start(i, [str(arguments.rank), "check" if what == "check" else "sum", str(i), str(HOSTS), str(folder),
                            hosts.address(i)], stdout=subprocess.PIPE, text=True) for i in range(HOSTS)], folder


def wait_for(paths, seconds=30):
    end = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < end, f"not there after {seconds} s: {paths}"
        time.sleep(0.01)


def results(processes, without):
    """(exit status, output) of each but one"""
    said = [process.communicate(timeout=60)[0] for i, process in enumerate(processes) if i != without]
    return [(process.returncode, words) for process, words in
            zip((p for i, p in enumerate(processes) if i != without), said)]


def check_failure(arguments, what, fail, status, words, seconds):
    with netns.Hosts(HOSTS) as hosts:
        processes, folder = start(hosts, arguments, what)
        wait_for([folder / f"summing~{i}" for i in range(HOSTS)])
        fail(hosts, processes)
        begin = time.monotonic()
        for got in results(processes, without=1):
            assert got[0] == status and words in got[1], f"{what}: {got}"
        took = time.monotonic() - begin
        assert took < seconds, f"{what}: noticed after {took:.1f} s"
        print(f"ok {what}: noticed after {took:.2f} s")


def check_clean_after_failure():
    try:
        with netns.Hosts(1) as hosts:
            sleeper = hosts.start(0, ["sleep", "1000"])
            raise KeyError
    except KeyError:
        pass
    assert sleeper.poll() is not None, "a process is left"
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert "ftune-test" not in left, f"namespaces are left: {left}"
    print("ok nothing is left after a failure")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.work = arguments.work.resolve()
    if missing := netns.unavailable():
        print(f"skipped: {missing}")
        sys.exit(77)

    check_clean_after_failure()
    with netns.Hosts(HOSTS) as hosts:
        processes, _ = start(hosts, arguments, "check")
        for got in results(processes, without=None):
            assert got == (0, ""), f"collectives: {got}"
        print(f"ok collectives between {HOSTS} hosts")
    check_failure(arguments, "killed", lambda _, processes: processes[1].kill(), 5, "rank 1: its connection was closed", 2)
    check_failure(arguments, "cut", lambda hosts, _: hosts.cut(1), 6, "rank 1: it did not come to all_reduce", 4)


if __name__ == "__main__":
    main()
