#!/usr/bin/env python3
"""Collectives between hosts, which network namespaces play, over gloo and with shared memory inside of each: all of
them to the bit, and what the others say when a rank is killed or a host's link is cut.

    test_gloo_hosts.py --rank GLOO_RANK --work FOLDER

Exit status 77, which CTest counts as skipped, where there can be no namespaces.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import netns

FLAT = [1, 1, 1]  # ranks on each host
EVEN = [2, 2]
UNEVEN = [2, 1]


def start(hosts, arguments, ranks, what, name):
    """All ranks → (the processes, the folder of their store)"""
    folder = arguments.work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    homes = [host for host, count in enumerate(ranks) for _ in range(count)]
    return [hosts.start(host, [str(arguments.rank), what, str(rank), ",".join(map(str, ranks)), str(folder),
                               hosts.address(host)], stdout=subprocess.PIPE, text=True)
            for rank, host in enumerate(homes)], folder


def wait_for(paths, seconds=30):
    end = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < end, f"not there after {seconds} s: {paths}"
        time.sleep(0.01)


def results(processes):
    """(exit status, output) of each"""
    said = [process.communicate(timeout=60)[0] for process in processes]
    return [(process.returncode, words) for process, words in zip(processes, said)]


def check_collectives(arguments, ranks):
    with netns.Hosts(len(ranks)) as hosts:
        processes, _ = start(hosts, arguments, ranks, "check", f"check-{len(ranks)}-{sum(ranks)}")
        for got in results(processes):
            assert got == (0, ""), f"collectives, {ranks} ranks on each host: {got}"
        print(f"ok collectives, {ranks} ranks on each host")


def check_failure(arguments, ranks, what, fail, status, words):
    """The last rank is alone on its host, or killed."""
    with netns.Hosts(len(ranks)) as hosts:
        processes, folder = start(hosts, arguments, ranks, "sum", what)
        wait_for([folder / f"summing~{i}" for i in range(sum(ranks))])
        fail(hosts, processes)
        begin = time.monotonic()
        for got in results(processes[:-1]):
            assert got[0] == status and re.search(words, got[1]), f"{what}: {got}"
        took = time.monotonic() - begin
        print(f"ok {what}: noticed after {took:.2f} s: {got[1].strip()}")


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
    for ranks in (FLAT, EVEN, UNEVEN):
        check_collectives(arguments, ranks)
    check_failure(arguments, FLAT, "killed", lambda _, processes: processes[-1].kill(), 5, "rank 2: ")
    check_failure(arguments, EVEN, "killed-inside", lambda _, processes: processes[-1].kill(), 5, "rank 3: ")
    # One of the two that are left may be a call behind, waiting for the third: then that is what the other says.
    check_failure(arguments, FLAT, "cut", lambda hosts, _: hosts.cut(2), 6, "rank [12]: it did not come to all_reduce")


if __name__ == "__main__":
    main()
