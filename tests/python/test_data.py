#!/usr/bin/env python3
"""Prepared data through the ftune binary: kept, found again, mended, shared, and whole whatever happens on the way.

Standard library only. `test_data.py --ftune build/release/ftune --work FOLDER`.
"""

import ctypes
import json
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from cli_case import CHATS, TINY, run_tests
from prepare_memory import measure, write_texts


def big_case(case, megabytes=8, name="big.yaml"):
    """A recipe whose data makes several shards."""
    write_texts(case.folder / "texts.jsonl", megabytes)
    (case.folder / name).write_text(f"model: {{path: {TINY}}}\ndata: {{train: texts.jsonl, sequence_len: 512}}\n"
                                    "train: {global_batch_size: 16}\n")
    return name


def prepare(case, recipe, *arguments, environment=None):
    done = case.run("data", recipe, *arguments, "--json", environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), done.stderr


def start(case, recipe, *arguments):
    return subprocess.Popen([case.ftune, "data", recipe, *arguments, "--json"], cwd=case.folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=case.environment())


def shards_in(stores):
    return sorted(stores.glob("*/shard-*.tokens"))


def contents(store):
    return {path.name: path.read_bytes() for path in Path(store).iterdir()}


def wait_for(condition, process=None, seconds=120):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end, "it did not come about"
        if process is not None and process.poll() is not None:
            return False
        time.sleep(0.002)
    return True


class Mount:
    """A file system of its own; None on entering where this is not allowed."""

    libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, folder, size):
        self.folder, self.size = folder, size
        folder.mkdir()

    def mount(self, flags=0):
        return self.libc.mount(b"tmpfs", str(self.folder).encode(), b"tmpfs", flags, f"size={self.size}".encode()) == 0

    def read_only(self):
        assert self.mount(flags=32 | 1)  # MS_REMOUNT | MS_RDONLY

    def __enter__(self):
        if self.mount():
            return self
        print("SKIP: a tmpfs cannot be mounted here")
        return None

    def __exit__(self, *_):
        self.libc.umount2(str(self.folder).encode(), 2)


def test_data_and_train(case):
    """`data` counts exactly; `train`, `inspect` and `eval` find what it left, and leave what they make."""
    case.rows(CHATS + [{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y" * 2000}]}])
    recipe = case.recipe()
    answer, _ = prepare(case, recipe)
    assert answer["samples"] == len(CHATS) and answer["rows"] == len(CHATS) + 1, answer
    assert answer["dropped"] == {"too_long": 1} and answer["reused_shards"] == 0, answer
    assert 0 < answer["trained_tokens"] < answer["tokens"] and 0 < answer["fill"] <= 1, answer
    store = Path(answer["path"])
    assert store.is_relative_to(case.folder.resolve() / "cache" / "ftune" / "tokens"), store
    assert answer["bytes"] == sum(shard.stat().st_size for shard in store.glob("shard-*")), answer
    before = contents(store)

    done = case.run("train", recipe, "output_dir=out")
    assert done.returncode == 0, done.stderr
    assert f"prepared data: {store}" in done.stderr and "re-used" in done.stderr, done.stderr
    begin = case.log()[0]
    for key in ("samples", "tokens", "trained_tokens", "packs", "steps_per_epoch", "total_steps"):
        assert begin[key] == answer[key], (key, begin, answer)
    dropped = [json.loads(line) for line in (case.folder / "out/data/dropped.jsonl").read_text().splitlines()]
    assert [(row["line"], row["reason"]) for row in dropped] == [(len(CHATS) + 1, "too_long")], dropped
    assert contents(store) == before
    inspected = json.loads(case.run("inspect", recipe, "--json").stdout)
    assert inspected["tokens"] == answer["tokens"] and inspected["packs"] == answer["packs"], inspected

    first = case.run("eval", TINY, "chats.jsonl")
    again = case.run("eval", TINY, "chats.jsonl")
    assert first.returncode == 0 and first.stdout == again.stdout, first.stderr + again.stderr
    assert "re-used" not in first.stderr and "re-used" in again.stderr, first.stderr + again.stderr

    here, _ = prepare(case, recipe, "data.prepared_path=here")
    assert here["path"].startswith("here/") and contents(case.folder / here["path"]) == before, here
    case.rows(CHATS[:5])  # the same name, other content
    fewer, _ = prepare(case, recipe)
    assert fewer["samples"] == 5 and fewer["path"] != answer["path"] and store.exists(), fewer


def test_dropped(case):
    """The rows that were dropped or cut: the first of each reason, and all of them in a file."""
    long = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y" * 2000}]}
    case.rows(CHATS + [long, {"text": 3}, long])
    case.rows(CHATS[:3] + [long], "others.jsonl")
    recipe = case.recipe()
    arguments = ("data.on_bad_row=skip", "data.eval=others.jsonl")
    end = len(CHATS)
    hint = "all of them: ftune data --dropped FILE\n"
    done = case.run("data", recipe, *arguments)
    assert done.returncode == 0, done.stderr
    assert f"first too_long: chats.jsonl:{end + 1}\n" in done.stdout and done.stdout.endswith(hint), done.stdout
    assert f"first bad_row: chats.jsonl:{end + 2}: " in done.stdout, done.stdout
    assert not (case.folder / "lists").exists()
    for path in ("list.jsonl", "lists/list.jsonl", case.folder.resolve() / "other.jsonl"):
        done = case.run("data", recipe, *arguments, "--dropped", path)
        assert done.returncode == 0 and done.stdout.endswith(f"all of them: {path}\n"), done.stdout + done.stderr
        rows = [json.loads(line) for line in (case.folder / path).read_text().splitlines()]
        assert [(row["file"], row["line"], row["reason"]) for row in rows] == [
            ("chats.jsonl", end + 1, "too_long"), ("chats.jsonl", end + 2, "bad_row"),
            ("chats.jsonl", end + 3, "too_long"), ("others.jsonl", 4, "too_long")], rows
    case.fails(4, "data", recipe, *arguments, "--dropped", "list.jsonl/x", says=["list.jsonl"])
    case.rows(CHATS)
    case.rows(CHATS, "others.jsonl")
    done = case.run("data", recipe, *arguments, "--dropped", "list.jsonl")
    assert done.returncode == 0 and "all of them" not in done.stdout, done.stdout + done.stderr
    assert (case.folder / "list.jsonl").read_text() == ""


def test_killed(case):
    """Killed at any moment, again and again: finished shards are kept, and the store is the same to the byte."""
    recipe = big_case(case, 14)
    whole, _ = prepare(case, recipe, "data.prepared_path=whole")
    assert whole["shards"] >= 12, whole
    stores = case.folder / "killed"
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, kills = random.Random(seed), 0
    for attempt in range(40):
        had = len(shards_in(stores))
        process = start(case, recipe, "data.prepared_path=killed")
        # Some before anything is written, most after a further shard or two.
        wanted = had + rng.choice((0, 1, 1, 1))
        came = wait_for(lambda: len(shards_in(stores)) >= wanted and any(stores.glob("*/lock")), process)
        if came:
            time.sleep(rng.random() * 0.05)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        assert len(shards_in(stores)) >= had
        if len(shards_in(stores)) >= whole["shards"] - 1:
            break
    assert kills >= 5, kills
    missing = whole["shards"] - len(shards_in(stores))
    last, said = prepare(case, recipe, "data.prepared_path=killed")
    assert last["shards"] - last["reused_shards"] == missing, (last, missing)
    assert "going on from" in said or missing == 0, said
    assert contents(case.folder / last["path"]) == contents(case.folder / whole["path"])
    print(f"{kills} kills, {missing} of {last['shards']} shards left for the last run")


def test_threads(case):
    """The store does not depend on how many threads made it."""
    recipe = big_case(case, 3)
    stores = [prepare(case, recipe, f"launch.threads={n}", f"data.prepared_path=of-{n}")[0]["path"] for n in (1, 5)]
    assert contents(case.folder / stores[0]) == contents(case.folder / stores[1])


def test_two_at_once(case):
    """The second waits, says so and takes what the first made; where the first is killed, it goes on."""
    recipe = big_case(case, 6)
    for killed in (False, True):
        stores = case.folder / f"stores-{killed}"
        path = f"data.prepared_path={stores.name}"
        first = start(case, recipe, path)
        assert wait_for(lambda: shards_in(stores), first)
        first.send_signal(signal.SIGSTOP)  # it is still at work when the second comes
        second = start(case, recipe, path)
        time.sleep(3)
        first.send_signal(signal.SIGKILL if killed else signal.SIGCONT)
        outcomes = [process.communicate(timeout=300) for process in (first, second)]
        assert second.returncode == 0, outcomes[1]
        answer = json.loads(outcomes[1][0])
        if killed:
            assert answer["reused_shards"] >= 1, outcomes
        else:
            assert "waiting for it" in outcomes[1][1], outcomes[1]
            assert first.returncode == 0 and answer["reused_shards"] == answer["shards"], outcomes
            made = contents(case.folder / answer["path"])
    assert contents(case.folder / answer["path"]) == made


def test_altered(case):
    """A byte that flips on the disk, a shard cut short, a file that is none: found, said, made again."""
    recipe = big_case(case, 4)
    answer, _ = prepare(case, recipe)
    good = contents(answer["path"])
    shard = Path(answer["path"]) / "shard-00000001.tokens"
    whole = shard.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 4
    for bad, said in ((bytes(flipped), "checksum"), (whole[:-7], "a torn file"), (b"", "0 bytes"),
                      (b"x" * 5000, "another kind of file")):
        shard.write_bytes(bad)
        again, messages = prepare(case, recipe)
        assert said in messages, (said, messages)
        assert again["shards"] - again["reused_shards"] == 1, again
        assert contents(answer["path"]) == good


def test_no_room(case):
    """A full disk and a limit on file sizes: one clear message, and what was finished is gone on from."""
    recipe = big_case(case, 8)
    with Mount(case.folder / "small", "6m") as mount:
        if mount is not None:
            case.fails(4, "data", recipe, "data.prepared_path=small", says=["No space left on device", "free some space"])
            shards = shards_in(case.folder / "small")
            assert shards and not list((case.folder / "small").glob("*/.shard*")), shards
            assert not list((case.folder / "small").glob("*/manifest.json"))
            case.fails(4, "train", recipe, "data.prepared_path=small", "output_dir=out", says=["No space left on device"])
    limit = 1 << 20
    done = subprocess.run([case.ftune, "data", recipe], cwd=case.folder, capture_output=True, text=True,
                          env=case.environment(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 4 and "File too large" in done.stderr and "ulimit -f" in done.stderr, done
    answer, _ = prepare(case, recipe)
    assert answer["shards"] >= 6, answer


def test_read_only(case):
    """A store that is there can be used from a read-only disk; a new one is refused there, or kept in memory."""
    recipe = case.recipe()
    (case.folder / "file").write_text("")
    case.fails(4, "data", recipe, "data.prepared_path=file/x", says=["data.prepared_path", "name a folder"])
    answer, said = prepare(case, recipe, environment={"XDG_CACHE_HOME": str(case.folder.resolve() / "file")})
    assert "path" not in answer and answer["samples"] == len(CHATS) and "kept in memory" in said, (answer, said)
    with Mount(case.folder / "disk", "6m") as mount:
        if mount is None:
            return
        first, _ = prepare(case, recipe, "data.prepared_path=disk")
        mount.read_only()
        again, _ = prepare(case, recipe, "data.prepared_path=disk")
        assert again["reused_shards"] == again["shards"] and again["path"] == first["path"], again
        case.fails(4, "data", recipe, "data.prepared_path=disk", "data.sequence_len=100",
                   says=["data.prepared_path", "Read-only file system"])


def test_memory(case):
    """What is resident does not grow with the data."""
    small = measure(case.ftune, case.folder / "small", 4, environment=case.environment())
    large = measure(case.ftune, case.folder / "large", 24, environment=case.environment())
    print(f"{small['resident_mb']} MB for {small['megabytes']} MB, {large['resident_mb']} MB for {large['megabytes']} MB")
    assert large["bytes"] > 2 * small["bytes"] and large["resident_mb"] < small["resident_mb"] + 60, (small, large)


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
