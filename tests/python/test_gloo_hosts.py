#!/usr/bin/env python3
"""Collectives between hosts, which network namespaces play, over gloo and with shared memory inside of each: all of
them to the bit, and what the others say when a rank is killed or a host's link is cut.

    test_gloo_hosts.py --rank GLOO_RANK --work FOLDER

Exit status 77, which CTest counts as skipped, where there can be no namespaces.
"""

import argparse
import collections
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import netns

PORT = 29600  # of the store, as gloo_rank has it
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
                               hosts.address(0 if what in ("world", "idle") else host)], stdout=subprocess.PIPE, text=True)
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


def wait_for_introductions(hosts, count):
    """Until ranks on `count` hosts have come to the store: the second connection of each is made behind its first word."""
    end = time.monotonic() + 30
    while True:
        said = hosts.output(0, ["ss", "-Htn", "state", "established", "sport", "=", f":{PORT}"])
        peers = collections.Counter(line.split()[-1].rsplit(":", 1)[0] for line in said.splitlines())
        if sum(connections > 1 for connections in peers.values()) >= count:
            return
        assert time.monotonic() < end, f"not all have come: {said}"


def check_killed_at_start(arguments, victim):
    """A rank that is killed at some moment of its joining: the others, which have 30 s for that, hear of it."""
    delays, slowest = [0.01 * i for i in range(12)], 0
    for delay in delays:
        with netns.Hosts(len(FLAT)) as hosts:
            processes, _ = start(hosts, arguments, FLAT, "world", "start")
            wait_for_introductions(hosts, len(FLAT))
            time.sleep(delay)
            processes[victim].kill()
            begin = time.monotonic()
            others = [process for rank, process in enumerate(processes) if rank != victim]
            for got in results(others):
                assert got[0] == 5 and re.search(f"rank {victim}[:,]", got[1]), f"killed at start + {delay} s: {got}"
            slowest = max(slowest, time.monotonic() - begin)
    assert slowest < 20, f"noticed only after {slowest:.2f} s: by a time-out"
    print(f"ok killed at start, {len(delays)} times: noticed after {slowest:.2f} s at most")


def check_loopback(arguments):
    """Rank 0 is told that it is on localhost, the other host another name of it: the store answers both."""
    with netns.Hosts(2) as hosts:
        folder = arguments.work / "loopback"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        processes = [hosts.start(rank, [str(arguments.rank), "world", str(rank), "1,1", str(folder), address],
                                 stdout=subprocess.PIPE, text=True)
                     for rank, address in ((0, "localhost"), (1, hosts.address(0)))]
        wait_for([folder / f"summing~{rank}" for rank in (0, 1)])
        print("ok a store that rank 0 knows as localhost")


def check_failure(arguments, ranks, what, fail, status, words, doing="sum", seconds=60):
    """The last rank is alone on its host, or killed. The others are to end in so many seconds."""
    with netns.Hosts(len(ranks)) as hosts:
        processes, folder = start(hosts, arguments, ranks, doing, what)
        wait_for([folder / f"summing~{i}" for i in range(sum(ranks))])
        fail(hosts, processes)
        begin = time.monotonic()
        for got in results(processes[:-1]):
            assert got[0] == status and re.search(words, got[1]), f"{what}: {got}"
        took = time.monotonic() - begin
        assert took < seconds, f"{what}: noticed after {took:.2f} s"
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
    check_loopback(arguments)
    check_killed_at_start(arguments, 2)
    check_killed_at_start(arguments, 0)
    check_failure(arguments, FLAT, "killed", lambda _, processes: processes[-1].kill(), 5, "rank 2: ")
    check_failure(arguments, EVEN, "killed-inside", lambda _, processes: processes[-1].kill(), 5, "rank 3: ")
    for doing in ("world", "idle"):
        for ranks in (FLAT, EVEN):
            check_failure(arguments, ranks, f"killed-{doing}-{len(ranks)}", lambda _, processes: processes[-1].kill(), 5,
                          f"^error: rank {sum(ranks) - 1}: its process died", doing, seconds=2)
    # One of the two that are left may be a call behind, waiting for the third. The other knows that.
    for time_ in range(3):
        check_failure(arguments, FLAT, f"cut-{time_}", lambda hosts, _: hosts.cut(2), 6,
                      "^error: rank 2: it did not come to all_reduce")
    check_failure(arguments, UNEVEN, "cut-uneven", lambda hosts, _: hosts.cut(1), 6,
                  "^error: rank 2: it did not come to all_reduce")


if __name__ == "__main__":
    main()
