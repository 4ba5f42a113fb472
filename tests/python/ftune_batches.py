"""Reads what `ftune inspect RECIPE --batches N --json` writes: the first N steps of a run, as it trains on them.

    {"batches": [                                       one entry an optimizer step: its microbatches
        [{"ids": [...], "positions": [...], "labels": [...],       as long as the microbatch
          "segments": [[0, 77], [77, 61], [138, 374]]},            begin and length of each sample, and of a tail
         ...], ...]}

Labels are shifted: the label of a token is the next token of the same sample, or -100 where that is not learned.
A segment without a label is a pack's unfilled tail (a sample always has one) and is left out here.
"""

import json
from dataclasses import dataclass
from pathlib import Path

IGNORE = -100


@dataclass(frozen=True)
class Microbatch:
    ids: list
    labels: list
    segments: list  # (begin, length) of the samples

    @property
    def used_tokens(self):
        return sum(length for _, length in self.segments)

    @property
    def trained_tokens(self):
        return sum(label != IGNORE for label in self.labels)


def _checked(entry, where):
    """That samples are side by side, positions restart, and no label crosses from one sample to the next."""
    ids, positions, labels = entry["ids"], entry["positions"], entry["labels"]
    if not len(ids) == len(positions) == len(labels):
        raise ValueError(f"{where}: {len(ids)} ids, {len(positions)} positions, {len(labels)} labels")
    segments = [(begin, length) for begin, length in entry["segments"]]
    unlabelled = set(range(len(ids)))
    end = 0
    for begin, length in segments:
        if begin < end or length < 1 or begin + length > len(ids):
            raise ValueError(f"{where}: segment [{begin}, {length}] overlaps another or leaves the batch")
        end = begin + length
        if positions[begin:end] != list(range(length)):
            raise ValueError(f"{where}: positions of segment [{begin}, {length}] do not count from 0")
        for t in range(begin, end - 1):
            if labels[t] not in (IGNORE, ids[t + 1]):
                raise ValueError(f"{where}: the label of token {t} is not the next token")
            unlabelled.discard(t)
    for t in sorted(unlabelled):
        if labels[t] != IGNORE:
            raise ValueError(f"{where}: token {t} has a label, but no next token in its sample")
    samples = [(b, n) for b, n in segments if any(label != IGNORE for label in labels[b : b + n])]
    return Microbatch(ids, labels, samples)


def parse_steps(steps, where="batches"):
    return [[_checked(entry, f"{where}: step {s + 1}, microbatch {i}") for i, entry in enumerate(microbatches)]
            for s, microbatches in enumerate(steps)]


def load_steps(path):
    """→ a list of steps, each a list of microbatches."""
    return parse_steps(json.loads(Path(path).read_text())["batches"], str(path))
