"""Texts to try tokenizers on: real ones of ../shared/material, random Unicode, and mixtures of the two."""

import json
import random
import unicodedata
from pathlib import Path

MATERIAL = Path(__file__).resolve().parents[2].parent / "shared" / "material"
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\u00a0", "\u2028", "\u3000", "\u200b", "\x0b", "\x85", " \n ", "\u2003"]
SNIPPETS = ["'s", "'S", "'ll", "'LL", "'\u017f", "don't", "I'VE", "3.14159", "1234567", "\u0661\u0662\u0663", "\u00bd\u00b2", "\u4e00\u4e8c\u4e09",
            "e\u0301", "\u1112\u1161\u11ab", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u00e9", "\ufb01", "\u2122", "\u0130", "\u03a3\u03c2", "\u00df\u1e9e", "\u01c5",
            "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\u2581", "\u2581\u2581", "\ufffd", "\x00", "\x7f", "<0x0A>",
            "http://a.b/c?d=e&f=g#h", "a_b", "--", "====", "```python\n", "/**\n * ", "\u0640", "\u200d", "\ufeff", "<unk>", "<s>", "</s>", "[CLS]", "\ud55c\uad6d\uc5b4",
            "\u30ab\u30bf\u30ab\u30ca\u30fc", "\u3072\u3089\u304c\u306a", "\u0e44\u0e17\u0e22", "\u05e2\u05d1\u05e8\u05d9\u05ea", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\u10d0\u10d1", "\u0410\u0411"]
# Blocks of which real text is made, and how often: the rest of Unicode is rare.
RANGES = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x17F), (0x180, 0x24F), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x5FF),
          (0x600, 0x6FF), (0x900, 0xDFF), (0xE00, 0xFFF), (0x1000, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF),
          (0x3400, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xF900, 0xFFFF), (0x10000, 0x1FFFF), (0x20000, 0x2FFFF)]


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def read(path):
    """The texts of a file, of any kind."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".jsonl":
        # Not splitlines, which takes U+2028 and others inside strings for ends of lines, too.
        return [part for line in text.split("\n") if line.strip() for part in strings(json.loads(line))]
    if path.suffix == ".json":
        return list(strings(json.loads(text)))
    return text.split("\n\n")


def real_texts():
    """Of the datasets, chat templates and recipes in ../shared/material; of this repository where it is not there."""
    root = Path(__file__).resolve().parents[2]
    folders = [MATERIAL / name for name in ("datasets", "chat_templates", "user_configs")]
    if not MATERIAL.exists():
        print("SKIPPED: no ../shared/material: the texts are those of this repository")
        folders = [root / "docs", root / "data", root / "tests" / "golden" / "tokenizer"]
    kinds = {".json", ".jsonl", ".txt", ".jinja", ".md", ".yaml", ".yml", ".h", ".cc"}
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in kinds]
    return [text for path in files for text in read(path) if text]


def random_character(rng):
    while True:
        char = chr(rng.randint(*rng.choice(RANGES)))
        # The wheel's parts have Unicode tables of several versions, as ours do: characters on which those agree.
        category = unicodedata.ucd_3_2_0.category(char)
        if category not in ("Cn", "Cs") and category == unicodedata.category(char):
            return char


def random_text(rng, control):
    parts = []
    for _ in range(rng.randint(1, 40)):
        kind = rng.random()
        if kind < 0.5:
            low, high = rng.choice(RANGES)
            parts += [random_character(rng) for _ in range(rng.randint(1, 12))]
        elif kind < 0.7:
            parts.append(rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 5]))
        elif kind < 0.92 or not control:
            parts.append(rng.choice(SNIPPETS))
        else:
            parts.append(rng.choice(control))
    return "".join(parts)


def mixed_text(rng, text, control):
    """A real text with something put in, taken out, repeated or turned into another case."""
    text = text[: rng.choice([200, 1000, 4000])]
    for _ in range(rng.randint(1, 6)):
        at = rng.randint(0, len(text))
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + rng.choice(SNIPPETS + SPACES + control) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randint(1, 9):]
        elif kind == 2:
            piece = text[at:at + rng.randint(1, 3)]
            text = text[:at] + piece * rng.randint(2, 30) + text[at:]
        elif kind == 3:
            text = text[:at] + text[at:at + 40].upper() + text[at + 40:]
        else:
            text = text[:at] + random_text(rng, control)[:50] + text[at:]
    return text


def long_texts(length):
    """Lines of one kind of text, of `length` bytes."""
    kinds = ["a", " ", "ab", "\u4e00\u4e8c", "\n", "\r\n", "12", "=-", "\u0301", "e\u0301", "\u0301\u0327\u0323", "\u2581", "\U0001f44d\U0001f3fd", "a ", "A'S "]
    return [kind * (length // len(kind.encode())) + end for kind in kinds for end in ("", "x")]


def texts(seed, size, real, control):
    """About `size` bytes: a tenth of long lines, the rest by number of texts 30 % real, 30 % real but changed, 40 % random."""
    rng = random.Random(seed)
    made = ["", " ", "\n", *control, *long_texts(size // 260)]
    total = sum(len(text.encode()) for text in made)
    while total < size:
        kind = rng.random()
        text = rng.choice(real)
        if kind < 0.3:
            text = text[:20000]
        elif kind < 0.6:
            text = mixed_text(rng, text, control)
        else:
            text = random_text(rng, control)
        made.append(text)
        total += len(text.encode())
    return made
