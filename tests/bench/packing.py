"""How full packs are: the datasets of shared/material with real tokenizers, as `ftune inspect` counts them.

    tests/bench/packing.py --ftune build/release/ftune --work build/bench

Prints a table in Markdown: the share of an epoch's packs that is filled, and in brackets what it would be in the
fewest packs that could hold so many tokens, where that is less than 99.5 %: a small dataset cannot fill its last
pack.
"""

import argparse
import json
import math
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "tests" / "golden" / "models" / "tiny-chat"
MATERIAL = ROOT.parent / "shared" / "material"
TOKENIZERS = {"llama3": ("npm_big/llama3", "meta-llama-Llama-3.1-8B-Instruct.jinja"),
              "qwen3": ("npm_big/qwen3", "Qwen-Qwen3-0.6B.jinja"),
              "phi-3": ("hf_json/phi-3-mini", "microsoft-Phi-3.5-mini-instruct.jinja")}
LENGTHS = (512, 1024, 2048)
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}


def chat(*turns):
    return {"messages": [{"role": role, "content": text} for role, text in turns]}


def gsm8k(row):
    return chat(("user", row["question"]), ("assistant", row["answer"]))


def alpaca(row):
    return chat(("user", row["instruction"] + ("\n" + row["input"] if row.get("input") else "")),
                ("assistant", row["output"]))


def sharegpt(row):
    turns = [(ROLES.get(turn["from"]), turn["value"]) for turn in row["conversations"]]
    return chat(*turns) if all(role for role, _ in turns) and turns[0][0] == "user" else None


def oasst(row):
    turns, node = [], row["prompt"]
    while node:
        turns.append(("user" if node["role"] == "prompter" else "assistant", node["text"]))
        node = next(iter(node["replies"]), None)
    return chat(*turns) if len(turns) > 1 else None


DATASETS = {"gsm8k/train.jsonl": gsm8k, "gsm8k/test.jsonl": gsm8k, "mlx/lora_train.jsonl": lambda row: row,
            "llamafactory/alpaca_en_demo.json": alpaca, "llamafactory/glaive_toolcall_en_demo.json": sharegpt,
            "sharegpt/fastchat_dummy_conversation.json": sharegpt, "oasst/en_100_tree.jsonl": oasst,
            "text/botchan.txt": None}


def convert(name, to):
    """The dataset as chats or texts, without rows of shapes that have no place there; → its path."""
    source = MATERIAL / "datasets" / name
    if DATASETS[name] is None:
        return source
    text = source.read_text()
    rows = json.loads(text) if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    chats = [row for row in map(DATASETS[name], rows) if row]
    path = to / (name.replace("/", "_") + "l")
    path.write_text("".join(json.dumps(row) + "\n" for row in chats))
    return path


def model(name, to):
    """A model's folder with this tokenizer, whose weights nobody looks at; → its path."""
    folder = to / name
    folder.mkdir()
    tokenizer, _ = TOKENIZERS[name]
    for file in ("config.json", "model.safetensors"):
        shutil.copyfile(TINY / file, folder / file)
    for file in (MATERIAL / "tokenizers" / tokenizer).glob("*.json"):
        shutil.copyfile(file, folder / file.name)
    config = json.loads((folder / "config.json").read_text())
    config.update(vocab_size=1 << 18, max_position_embeddings=max(LENGTHS))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def inspect(ftune, folder, template, path, length):
    recipe = {"model": {"path": str(folder)},
              "data": {"train": str(path), "sequence_len": length, "chat_template": str(template)}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    done = subprocess.run([ftune, "inspect", folder / "recipe.yaml", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{path.name}, {folder.name}, {length}: {done.stderr}")
    return json.loads(done.stdout)


def cell(facts, length):
    best = facts["tokens"] / (math.ceil(facts["tokens"] / length) * length)
    text = f"{100 * facts['fill']:.2f}"
    return text if best >= 0.995 else f"{text} ({100 * best:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    work = arguments.work / "packing"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    models = {name: model(name, work) for name in TOKENIZERS}
    heads = [f"{name} {length}" for name in TOKENIZERS for length in LENGTHS]
    print("| % filled | samples | " + " | ".join(heads) + " |\n" + "|---" * (len(heads) + 2) + "|")
    for dataset in DATASETS:
        path = convert(dataset, work)
        cells, samples = [], 0
        for name, folder in models.items():
            template = MATERIAL / "chat_templates" / "jinja" / "model_official" / TOKENIZERS[name][1]
            for length in LENGTHS:
                facts = inspect(arguments.ftune, folder, template, path, length)
                samples = max(samples, facts["samples"])
                cells.append(cell(facts, length))
        print(f"| {dataset} | {samples} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
