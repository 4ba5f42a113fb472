"""Reads checkpoints as docs/checkpoints.md describes them, with code of its own, and says whether they are whole."""

import itertools
import json
import math
import re
import struct

import xxhash

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def steps(checkpoints):
    """→ the steps of the checkpoints of a run that have a manifest, in order."""
    if not checkpoints.is_dir():
        return []
    found = (re.fullmatch(r"step-(\d{8})", path.name) for path in checkpoints.iterdir())
    return sorted(int(match[1]) for match in found if match and (checkpoints / match[0] / "manifest.json").exists())


def folder_of(checkpoints, step):
    return checkpoints / f"step-{step:08d}"


def check_whole(folder):
    """An AssertionError unless the checkpoint is whole: its files, their checksums, and all elements once. → the manifest."""
    text = (folder / "manifest.json").read_bytes()
    manifest = json.loads(text)
    own, nothing = f'"{manifest["xxh3"]}"'.encode(), b'"0000000000000000"'
    assert text.count(own) == 1 and xxhash.xxh3_64_hexdigest(text.replace(own, nothing)) == manifest["xxh3"], folder
    assert manifest["format"] == "ftune checkpoint" and manifest["version"] == 1, folder
    assert folder.name == f"step-{manifest['step']:08d}", folder
    there = {path.name for path in folder.iterdir()}
    assert there == {*manifest["files"], "manifest.json"}, (folder, there)
    headers = {}
    for name, file in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert len(content) == file["bytes"], (folder / name, len(content), file)
        assert xxhash.xxh3_64_hexdigest(content) == file["xxh3"], folder / name
        headers[name] = _regions(content)
    tensors = list(manifest["values"].items())
    tensors += [(f"{name}/{key}", tensor) for name, states in manifest["optimizer"].items() for key, tensor in states.items()]
    assert tensors, folder
    taken = {name: set() for name in headers}
    for name, tensor in tensors:
        _check_tiled(name, tensor)
        for part in tensor["slices"]:
            expected = (tensor["dtype"], tuple(part["size"]))
            assert headers[part["file"]].get(part["offset"]) == expected, (folder, name, part)
            assert part["offset"] not in taken[part["file"]], (folder, name, part)
            taken[part["file"]].add(part["offset"])
    assert taken == {name: set(regions) for name, regions in headers.items()}, folder
    return manifest


def _regions(content):
    """→ of a safetensors file: what begins where, as (dtype, shape)."""
    data = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:data])
    header.pop("__metadata__", None)
    regions, ends = {}, []
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert end - begin == BYTES[entry["dtype"]] * math.prod(entry["shape"]), name
        regions[data + begin] = (entry["dtype"], tuple(entry["shape"]))
        ends.append((begin, end))
    ends.sort()
    assert ends[0][0] == 0 and ends[-1][1] == len(content) - data
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ends)), "a gap in a file"
    return regions


def _check_tiled(name, tensor):
    """Boxes inside of the tensor, no two of which share an element, and that have as many as it has."""
    shape = tensor["shape"]
    boxes = [tuple(zip(part["begin"], part["size"], strict=True)) for part in tensor["slices"]]
    for box in boxes:
        assert all(0 <= b and b + n <= whole for (b, n), whole in zip(box, shape, strict=True)), (name, box)
    for one, other in itertools.combinations(boxes, 2):
        shared = [min(a + n, b + m) - max(a, b) for (a, n), (b, m) in zip(one, other)]
        assert min(shared) <= 0, (name, one, other)
    assert sum(math.prod(n for _, n in box) for box in boxes) == math.prod(shape), name
