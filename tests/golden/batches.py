"""The batches that the golden values are computed on, in ftune's layout (data/loader/batch.h)."""

from dataclasses import dataclass

import numpy as np

from variant import IDS

PACKS = 2
CAPACITY = 48
IGNORE = -100

# Lengths of the samples of both packs, step by step; used over and over. Full packs, unfilled tails, a sample
# of one token and an empty pack are among them.
_LAYOUTS = [
    ([20, 11, 9], [33, 13]),
    ([48], [5, 17, 24]),
    ([7, 1, 25], [40]),
    ([16, 16, 16], [30, 12]),
    ([45], []),
]


@dataclass(frozen=True)
class Batch:
    ids: np.ndarray  # [PACKS * CAPACITY] i32; 0 in a tail
    positions: np.ndarray  # from 0 in each sample
    labels: np.ndarray  # the next token of the same sample; IGNORE where it is not learned
    segments: np.ndarray  # [samples, 2] i32: begin and length, in the flattened tokens; without the tails

    @property
    def trained_tokens(self):
        return int((self.labels != IGNORE).sum())


def _sample(random, length):
    """Ids that can be learned in part, and labels: a prompt that is not, then most of the rest."""
    ids = random.integers(3, IDS, length)
    for i in range(1, length):
        if random.random() < 0.7:
            ids[i] = (3 * ids[i - 1] + 7) % IDS
    labels = np.full(length, IGNORE)
    if length > 1:
        labels[:-1] = ids[1:]
        labels[: random.integers(0, length // 3 + 1)] = IGNORE
        labels[random.random(length) < 0.1] = IGNORE
    return ids, labels


def _batch(random, layout):
    ids = np.zeros(PACKS * CAPACITY, np.int32)
    positions = np.zeros(PACKS * CAPACITY, np.int32)
    labels = np.full(PACKS * CAPACITY, IGNORE, np.int32)
    segments = []
    for pack, lengths in enumerate(layout):
        assert sum(lengths) <= CAPACITY
        begin = pack * CAPACITY
        for length in lengths:
            place = slice(begin, begin + length)
            ids[place], labels[place] = _sample(random, length)
            positions[place] = np.arange(length)
            segments.append((begin, length))
            begin += length
    return Batch(ids, positions, labels, np.array(segments, np.int32).reshape(-1, 2))


def make_batches(count=20, seed=2):
    random = np.random.default_rng(seed)
    return [_batch(random, _LAYOUTS[i % len(_LAYOUTS)]) for i in range(count)]


def batch_tensors(batches):
    """What a C++ test reads."""
    tensors = {key: np.stack([getattr(b, key) for b in batches]) for key in ("ids", "positions", "labels")}
    tensors |= {f"segments.{i}": b.segments for i, b in enumerate(batches)}
    tensors["packs"] = np.array([PACKS], np.int32)
    tensors["capacity"] = np.array([CAPACITY], np.int32)
    return {f"batches.{name}": tensor for name, tensor in tensors.items()}
