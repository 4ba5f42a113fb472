"""ftune's tokenizers beside the wheels `tokenizers` and `sentencepiece`: the same ids and texts on real, changed and random text.

    python tests/python/test_tokenizers.py --tool build/release/tests/tokenize_lines --work /tmp/t [--megabytes 10]
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parent))

from sentencepiece import SentencePieceProcessor  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from tokenizer_kinds import BUILT, material, sentence_piece_models  # noqa: E402
from tokenizer_texts import long_texts, real_texts, texts  # noqa: E402


def ours(tool, path, lines):
    done = subprocess.run([tool, path], input="".join(json.dumps(text) + "\n" for text in lines), text=True,
                          capture_output=True)
    assert done.returncode == 0, f"{path}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def expected(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    # skip_special_tokens=True misses special tokens that normalisation changes ("\u2581<s>").
    special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    plain = tokenizer.decode([i for i in ids if i not in special], skip_special_tokens=False)
    return {"ids": ids, "special": tokenizer.encode(text, add_special_tokens=True).ids,
            "decoded": tokenizer.decode(ids, skip_special_tokens=False), "plain": plain, "streamed": plain}


def smallest(tool, path, tokenizer, text, key):
    """The shortest part of a text on which the two still differ."""
    def differs(part):
        return part and ours(tool, path, [part])[0][key] != expected(tokenizer, part)[key]
    step = max(len(text) // 2, 1)
    while True:
        for begin in range(0, len(text), step):
            rest = text[:begin] + text[begin + step:]
            if differs(rest):
                text = rest
                break
        else:
            if step == 1:
                return text
            step = max(step // 2, 1)


def compare(tool, name, path, wheel, seed, size, real):
    tokenizer = Tokenizer.from_str(wheel)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    control = sorted(token.content for token in tokenizer.get_added_tokens_decoder().values())
    lines = texts(seed, size, real, random.Random(seed).sample(control, min(len(control), 20)))
    began = time.time()
    found = ours(tool, path, lines)
    tokens, wrong = 0, 0
    for text, got in zip(lines, found, strict=True):
        want = expected(tokenizer, text)
        tokens += len(want["ids"])
        if got == want:
            continue
        wrong += 1
        if wrong <= 3:
            key = next(key for key in want if got[key] != want[key])
            part = smallest(tool, path, tokenizer, text, key)
            print(f"{name}: {key} of {part!r}\n  wheel {expected(tokenizer, part)[key]}\n  ours  "
                  f"{ours(tool, path, [part])[0][key]}")
    size = sum(len(text.encode()) for text in lines)
    print(f"{name}: {len(lines)} texts, {size / 1e6:.1f} MB, {tokens} tokens, {wrong} differ, {time.time() - began:.1f} s",
          flush=True)
    return wrong


def compare_model(tool, name, path, seed, size, real):
    """A SentencePiece model of BPE. (Unigram models with equal scores depend on the version of the library: by rounding.)"""
    model = SentencePieceProcessor(model_file=str(path))
    # Control symbols in text are text for the binding.
    control = [model.id_to_piece(i) for i in range(model.get_piece_size()) if model.is_control(i) or model.is_unknown(i)]
    lines = [text for text in texts(seed, size, real, []) if not any(token in text for token in control)]
    wrong = 0
    for text, got in zip(lines, ours(tool, path, lines), strict=True):
        ids = model.encode(text)
        decoded = model.decode(ids)
        if got["ids"] == ids and got["decoded"] == got["streamed"] == decoded:
            continue
        wrong += 1
        if wrong <= 3:
            print(f"{name}: {text!r}\n  wheel {ids} {decoded!r}\n  ours  {got['ids']} {got['decoded']!r}")
    print(f"{name}: {len(lines)} texts, {wrong} differ", flush=True)
    return wrong


def check_long_lines(tool, name, path):
    """A megabyte in one line, of each kind. What grows with the square of the length takes minutes, else all are done in seconds."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (40, 40))
    lines = "".join(json.dumps(text) + "\n" for text in long_texts(1 << 20))
    done = subprocess.run([tool, path, "1"], input=lines, text=True, capture_output=True, preexec_fn=limit)
    print(f"{name}: {done.stdout.strip() or done.stderr or 'too much work'}", flush=True)
    return done.returncode != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=0.15, help="of text for each tokenizer")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--long", action="store_true", help="only lines of a megabyte, which need not be compared")
    parser.add_argument("names", nargs="*", help="some tokenizers only")
    arguments = parser.parse_args()
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    real = real_texts()
    corpus = [text[:2000] for text in random.Random(1).sample(real, min(len(real), 1500))]
    made = {}
    for name, build in BUILT.items():
        if arguments.names and name not in arguments.names:
            continue
        path = arguments.work / f"{name}.json"
        path.write_text(build(corpus).to_str())
        made[name] = (path, path.read_text())
    if arguments.long:
        return 1 if sum(check_long_lines(arguments.tool, name, path) for name, (path, _) in made.items()) else 0
    made.update((name, files) for name, files in material().items() if not arguments.names or name in arguments.names)
    size = int(arguments.megabytes * 1e6)
    wrong = sum(compare(arguments.tool, name, path, wheel, seed, size, real) for name, (path, wheel) in made.items())
    models = {name: path for name, path in sentence_piece_models().items() if not arguments.names or name in arguments.names}
    wrong += sum(compare_model(arguments.tool, name, path, seed, size, real) for name, path in models.items())
    print(f"{len(made) + len(models)} tokenizers, {wrong} texts differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
