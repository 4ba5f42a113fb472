"""A folder in which a test runs the ftune binary as a user does, and what all such tests share."""

import argparse
import array
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
TINY = HERE.parent / "golden" / "models" / "tiny-chat"
CHATS = [{"messages": [{"role": "user", "content": f"What is {i} plus {i}?"},
                       {"role": "assistant", "content": f"It is {2 * i}."}]} for i in range(12)]


class Case:
    """A folder with a recipe and data; what to run there."""

    def __init__(self, ftune, folder):
        self.ftune, self.folder = ftune, folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.rows(CHATS)

    def rows(self, rows, name="chats.jsonl"):
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def recipe(self, text="", model=TINY, adapter=True, name="recipe.yaml"):
        lines = [f"model: {{path: {model}}}", "data: {train: chats.jsonl, sequence_len: 128}",
                 "train: {global_batch_size: 2, max_steps: 3, num_epochs: 3}"]
        if adapter:
            lines.append("adapter: {lora_r: 4}")
        (self.folder / name).write_text("\n".join(lines) + "\n" + text)
        return name

    def environment(self, more=None):
        """Prepared data stays in the test's folder, whoever runs it."""
        return {**os.environ, "XDG_CACHE_HOME": str(self.folder.resolve() / "cache"), **(more or {})}

    def run(self, *arguments, text=None, environment=None, folder="."):
        """`folder`: in the test's own, where it is run."""
        return subprocess.run([self.ftune, *map(str, arguments)], cwd=self.folder / folder, input=text, text=True,
                              capture_output=True, timeout=300, env=self.environment(environment))

    def fails(self, code, *arguments, says, text=None):
        """Runs, and checks the exit code, that all of `says` is in the one message, and the JSON form of it."""
        done = self.run(*arguments, text=text)
        where = f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
        assert done.returncode == code, f"exit {done.returncode}, expected {code}: {where}"
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        assert len(errors) == 1, f"{len(errors)} messages: {where}"
        for part in says:
            assert part in errors[0], f"'{part}' is not in: {where}"
        assert "terminate called" not in done.stderr and "Assertion" not in done.stderr, where
        again = self.run(*arguments, "--json", text=text)
        answer = json.loads(again.stdout)
        assert answer["exit"] == code == again.returncode, again.stdout
        assert says[0] in answer["error"]["message"], again.stdout
        return answer["error"]

    def resolved(self, run="out"):
        """→ the run's recipe without its comments on what was given."""
        return re.sub("  # from .*", "", (self.folder / run / "recipe.yaml").read_text())

    def log(self, run="out"):
        return [json.loads(line) for line in (self.folder / run / "log.jsonl").read_text().splitlines()]


def model_copy(case, name="model"):
    folder = case.folder / name
    shutil.copytree(TINY, folder)
    return folder


def random_model(folder, **config):
    """A model like the tiny one, of other sizes, with random weights."""
    shutil.copytree(TINY, folder)
    edit_json(folder / "config.json", lambda c: c.update(config))
    c = json.loads((folder / "config.json").read_text())
    hidden, inner = c["hidden_size"], c["intermediate_size"]
    query, key = (c[name] * c["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    shapes = {"model.embed_tokens": [c["vocab_size"], hidden], "model.norm": [hidden]}
    for i in range(c["num_hidden_layers"]):
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in {
            "input_layernorm": [hidden], "post_attention_layernorm": [hidden],
            "self_attn.q_proj": [query, hidden], "self_attn.k_proj": [key, hidden], "self_attn.v_proj": [key, hidden],
            "self_attn.o_proj": [hidden, query], "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden],
            "mlp.down_proj": [hidden, inner]}.items()}
    if not c["tie_word_embeddings"]:
        shapes["lm_head"] = [c["vocab_size"], hidden]
    draw = random.Random(1)
    some = array.array("f", [draw.gauss(0, 0.05) for _ in range(7919)])  # a prime: no row is like another
    header, values = {}, array.array("f")
    for name, shape in shapes.items():
        count, begin = math.prod(shape), 4 * len(values)
        values.extend([1.0] * count if "norm" in name else (some * (count // len(some) + 1))[:count])
        header[f"{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, 4 * len(values)]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + values.tobytes())


def tensors(path):
    """→ the values of each tensor of a safetensors file in fp32."""
    content = path.read_bytes()
    data = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:data])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        found[name] = array.array("f", content[data + begin:data + end])
    return found


def edit_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def run_tests(module, doc):
    """Runs a module's test_ functions as the command line says; → the exit status."""
    tests = {name.removeprefix("test_"): f for name, f in module.items() if name.startswith("test_")}
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(tests))
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.names or tests:
        try:
            tests[name](Case(str(arguments.ftune.resolve()), arguments.work / name))
            print(f"passed {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0
