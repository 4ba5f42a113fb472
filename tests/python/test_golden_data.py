#!/usr/bin/env python3
"""Datasets as the ftune binary reads them, against transformers: the same ids and labels for real conversations.

    test_golden_data.py --ftune BINARY --work FOLDER [NAME …]

Both sides run live: rows of the material's datasets are brought into messages here, by code of its own, rendered and
tokenised by transformers' apply_chat_template, and labelled by where the assistant's turns begin and end; `ftune
inspect` must show the same ids and labels. Where the material is absent, the tests are skipped, which is said and
counted. Needs transformers.
"""

import itertools
import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from cli_case import TINY, run_tests

MATERIAL = Path(__file__).resolve().parents[3] / "shared" / "material"
TEMPLATES = MATERIAL / "chat_templates" / "jinja"
DATASETS = MATERIAL / "datasets"
OWN_TEMPLATES = Path(__file__).resolve().parent.parent / "unit" / "template" / "templates"
ROWS = 200  # of each dataset
IGNORE = -100


@dataclass
class Model:
    """A tokenizer of the material, with the tokens that a template needs, and how its turns end."""
    tokenizer: str
    template: Path
    end: str  # the token that ends a turn
    bos: str = None
    eos: str = None  # where it is another one
    added: list = field(default_factory=list)
    tools: bool = False   # the template writes tools and their calls
    system: bool = True   # and system prompts
    marked: bool = False  # it has {% generation %}


MODELS = {
    "qwen2.5": Model("npm_big/qwen3", TEMPLATES / "trl/qwen2_5.jinja", "<|im_end|>", tools=True),
    "qwen2.5-marked": Model("npm_big/qwen3", TEMPLATES / "trl/qwen2_5_training.jinja", "<|im_end|>", tools=True,
                            marked=True),
    "llama3": Model("npm_big/llama3", TEMPLATES / "trl/llama3.jinja", "<|eot_id|>", bos="<|begin_of_text|>"),
    "llama3-marked": Model("npm_big/llama3", TEMPLATES / "trl/llama3_training.jinja", "<|eot_id|>",
                           bos="<|begin_of_text|>", marked=True),
    "smollm2": Model("gpt2", OWN_TEMPLATES / "smollm2.jinja", "<|im_end|>", bos="<|im_start|>",
                     added=["<|im_start|>", "<|im_end|>"]),
    "gemma": Model("hf_json/phi-3-mini", TEMPLATES / "trl/gemma.jinja", "<end_of_turn>", bos="<s>",
                   added=["<start_of_turn>", "<end_of_turn>"], system=False),
    "phi3": Model("hf_json/phi-3-mini", TEMPLATES / "trl/phi3.jinja", "<|end|>", eos="<|endoftext|>"),
}


# --- Rows of datasets as messages, by this test's own rules: [(messages, tools)]

def json_rows(name):
    return json.loads((DATASETS / name).read_text())


def lines(name):
    with open(DATASETS / name) as file:
        return [json.loads(line) for line in itertools.islice(file, ROWS)]


def turn(role, content):
    return {"role": role, "content": content}


def alpaca(rows, question="instruction", answer="output"):
    def ask(row):
        return row[question] + ("\n" + row["input"] if row.get("input") else "")
    return [([turn("user", ask(row)), turn("assistant", row[answer])], None) for row in rows]


def sharegpt(rows):
    roles = {"human": "user", "gpt": "assistant", "system": "system", "observation": "tool"}
    conversations = []
    for row in rows:
        messages = []
        for said in row["conversations"]:
            if said["from"] == "function_call":
                call = json.loads(said["value"])
                messages.append({"role": "assistant", "content": "",
                                 "tool_calls": [{"type": "function", "function": call}]})
            else:
                messages.append(turn(roles[said["from"]], said["value"]))
        tools = [{"type": "function", "function": tool} for tool in json.loads(row.get("tools") or "[]")]
        conversations.append((messages, tools or None))
    return conversations


def best_paths(trees):
    """The best ranked reply of each message, as messages."""
    rows = []
    for tree in trees:
        messages, node = [], tree["prompt"]
        while node:
            messages.append(turn({"prompter": "user", "assistant": "assistant"}[node["role"]], node["text"]))
            node = min(node.get("replies") or [None], key=lambda reply: (reply or {}).get("rank") or 0)
        while messages and messages[-1]["role"] != "assistant":
            messages.pop()
        if messages:
            rows.append({"messages": messages})
    return rows


@dataclass
class Data:
    rows: list           # as they go to ftune
    conversations: list  # what they are
    entry: str = ""      # further keys of the recipe's entry
    tools: bool = False
    system: bool = False


def datasets():
    glaive = json_rows("llamafactory/glaive_toolcall_en_demo.json")[:ROWS]
    gsm8k = lines("gsm8k/train.jsonl")
    instruct = json_rows("torchtune/instruct_tiny.json")
    hh = json_rows("torchtune/hh_rlhf_tiny.json")
    paths = best_paths(lines("oasst/en_100_tree.jsonl"))
    paired = json_rows("torchtune/stack_exchange_paired_tiny.json")[:ROWS]
    chat_tiny = json_rows("torchtune/chat_tiny.json")
    yield "gsm8k-test", Data(lines("gsm8k/test.jsonl"), alpaca(lines("gsm8k/test.jsonl"), "question", "answer"),
                             "columns: {instruction: question, output: answer}")
    yield "gsm8k", Data(gsm8k, alpaca(gsm8k, "question", "answer"),
                        "columns: {instruction: question, output: answer}")
    for name in ("llamafactory/alpaca_en_demo", "llamafactory/identity", "torchtune/alpaca_tiny"):
        rows = json_rows(name + ".json")[:ROWS]
        yield Path(name).name, Data(rows, alpaca(rows))
    yield "instruct_tiny", Data(instruct, alpaca(instruct, answer="response"), "columns: {output: response}")
    yield "glaive", Data(glaive, sharegpt(glaive), tools=True)
    dummy = json_rows("sharegpt/fastchat_dummy_conversation.json")[:ROWS]
    yield "fastchat_dummy", Data(dummy, sharegpt(dummy))
    yield "chat_tiny", Data(chat_tiny, sharegpt(chat_tiny), system=True)
    yield "oasst", Data(paths, [(row["messages"], None) for row in paths])
    yield "hh_rlhf", Data(hh, [(row["chosen"], None) for row in hh], "columns: {messages: chosen}")
    yield "stack_exchange", Data(paired, alpaca(paired, "question", "response_j"),
                                 "columns: {instruction: question, output: response_j}")


# --- The other side

def write_json(path, value):
    path.write_text(json.dumps(value))


def load_tokenizer(model, folder):
    """transformers' tokenizer of a model, written to the folder too."""
    file = next((MATERIAL / "tokenizers" / model.tokenizer).glob("tokenizer*.json"))
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in model.added])
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"eos_token": model.eos or model.end} | ({"bos_token": model.bos} if model.bos else {})
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **special})
    (folder / "chat_template.jinja").write_text(model.template.read_text())
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **special,
                                   chat_template=model.template.read_text())


def write_tiny(folder, vocabulary, end):
    """What says how many tokens the model knows and how long its context is; `inspect` reads no weights."""
    config = json.loads((TINY / "config.json").read_text())
    write_json(folder / "config.json", config | {"vocab_size": vocabulary, "max_position_embeddings": 1 << 20,
                                                 "bos_token_id": None, "eos_token_id": end})
    shutil.copy(TINY / "model.safetensors", folder)


def turns(tokenizer, model, messages, tools, text):
    """Where in the text the assistant writes: from where a prompt for it ends to the turn's end, in characters."""
    def render(count, prompt):
        return tokenizer.apply_chat_template(messages[:count], tools=tools, tokenize=False, add_generation_prompt=prompt)
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        begin = len(render(i, True)) if i else text.index(message["content"].strip())
        whole = render(i + 1, False)
        end = whole.rindex(model.end) + len(model.end)
        assert text.startswith(whole[:end]) and begin < end, (text, whole)
        yield begin, end


def learns(text, begin, end, first, last):
    """Whether the token of text[begin:end] is learned of what stands in [first, last): it begins there, or before it
    with nothing but the space that SentencePiece's words carry."""
    return begin < end and begin < last and first < end and not text[begin:max(begin, first)].strip(" ")


def expected(tokenizer, model, messages, tools):
    """ids and labels."""
    if model.marked:
        done = tokenizer.apply_chat_template(messages, tools=tools, return_dict=True, return_assistant_tokens_mask=True)
        ids, mask = done["input_ids"], list(done["assistant_masks"])
        # A turn ends with its end token; the line end behind it is the template's.
        for i in range(len(ids)):
            if mask[i] and not tokenizer.decode(ids[i]).strip() and (i + 1 == len(ids) or not mask[i + 1]):
                mask[i] = 0
        return ids, [token if trained else IGNORE for token, trained in zip(ids, mask)]
    text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
    ids = tokenizer.apply_chat_template(messages, tools=tools, return_dict=True)["input_ids"]
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    assert encoding["input_ids"] == ids
    spans = list(turns(tokenizer, model, messages, tools, text))
    labels = []
    for token, (begin, end) in zip(ids, encoding["offset_mapping"]):
        labels.append(token if any(learns(text, begin, end, b, e) for b, e in spans) else IGNORE)
    return ids, labels


def shown(case, model_folder, rows, entry="", data=""):
    """What `ftune inspect` shows of the rows."""
    case.rows(rows, "rows.jsonl")
    comma = ", " if entry else ""
    (case.folder / "recipe.yaml").write_text(
        f"model: {{path: {model_folder}}}\n"
        f"data: {{train: [{{path: rows.jsonl{comma}{entry}}}], sequence_len: 1000000, packing: false{data}}}\n")
    done = case.run("inspect", "recipe.yaml", "--json", "--count", ROWS)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def compare(name, got, want, tokenizer):
    assert len(got) == len(want), f"{name}: {len(got)} samples, expected {len(want)}"
    for i, (sample, (ids, labels)) in enumerate(zip(got, want)):
        if sample["ids"] == ids and sample["labels"] == labels:
            continue
        at = next((k for k, pair in enumerate(itertools.zip_longest(zip(sample["ids"], sample["labels"]), zip(ids, labels)))
                   if pair[0] != pair[1]), 0)
        near = slice(max(0, at - 6), at + 6)
        raise AssertionError(
            f"{name}: sample {i} differs at token {at}:\n ftune {list(zip(sample['ids'], sample['labels']))[near]}"
            f" {tokenizer.decode(sample['ids'][near])!r}\n transformers {list(zip(ids, labels))[near]}"
            f" {tokenizer.decode(ids[near])!r}")


def prepare(case, name):
    folder = case.folder / "model"
    folder.mkdir()
    model = MODELS[name]
    tokenizer = load_tokenizer(model, folder)
    write_tiny(folder, len(tokenizer), tokenizer.convert_tokens_to_ids(model.end))
    return model, tokenizer, folder


def check_conversations(case, name):
    model, tokenizer, folder = prepare(case, name)
    conversations = 0
    for dataset, data in datasets():
        if (data.tools and not model.tools) or (data.system and not model.system):
            continue
        got = shown(case, folder, data.rows, data.entry)
        compare(f"{name}, {dataset}", got["shown"],
                [expected(tokenizer, model, *conversation) for conversation in data.conversations], tokenizer)
        audit = got["audit"]
        assert audit["open_turns"] == 0 and audit["samples_with_doubled_bos"] == 0, audit
        conversations += len(got["shown"])
    print(f"{name}: {conversations} conversations are equal", flush=True)


def test_qwen25(case):
    check_conversations(case, "qwen2.5")


def test_qwen25_marked(case):
    check_conversations(case, "qwen2.5-marked")


def test_llama3(case):
    check_conversations(case, "llama3")


def test_llama3_marked(case):
    check_conversations(case, "llama3-marked")


def test_smollm2(case):
    check_conversations(case, "smollm2")


def test_gemma(case):
    check_conversations(case, "gemma")


def test_phi3(case):
    check_conversations(case, "phi3")


def test_texts(case):
    """Rows that no template renders: text, prompt and completion, segments, tokens."""
    for name in ("llama3", "gemma", "smollm2"):
        model, tokenizer, folder = prepare(case, name)
        end = tokenizer.convert_tokens_to_ids(model.end)

        texts = lines("mlx/lora_train.jsonl") + [{"text": (DATASETS / "text" / "botchan.txt").read_text()}]
        want = [tokenizer(row["text"])["input_ids"] + [end] for row in texts]
        compare(f"{name}, text", shown(case, folder, texts, data=", excess_length_strategy: error")["shown"],
                [(ids, ids) for ids in want[:ROWS]], tokenizer)

        pairs = [{"prompt": row["question"] + "\n", "completion": row["answer"]} for row in lines("gsm8k/test.jsonl")]
        compare(f"{name}, prompt_completion", shown(case, folder, pairs)["shown"],
                [labelled(tokenizer, [(p["prompt"], False), (p["completion"], True)], True, [end]) for p in pairs],
                tokenizer)

        pieces = [[(p["prompt"], False), (p["completion"], True), (model.end + "\n", True), ("Next.", False)]
                  for p in pairs]
        segments = [{"segments": [{"text": text, "label": label} for text, label in row]} for row in pieces]
        compare(f"{name}, segments", shown(case, folder, segments)["shown"],
                [labelled(tokenizer, row, False, []) for row in pieces], tokenizer)

        tokens = [{"input_ids": ids, "labels": labels, "attention_mask": [1] * len(ids)}
                  for ids, labels in (labelled(tokenizer, row, True, []) for row in pieces)]
        compare(f"{name}, tokens", shown(case, folder, tokens)["shown"],
                [(row["input_ids"], row["labels"]) for row in tokens], tokenizer)
        (case.folder / "model").rename(case.folder / f"model-{name}")


def labelled(tokenizer, pieces, special, behind):
    """ids and labels of pieces of one text, each trained or not."""
    text, spans = "", []
    for piece, label in pieces:
        if label and spans and spans[-1][1] == len(text):
            spans[-1] = (spans[-1][0], len(text) + len(piece))
        elif label:
            spans.append((len(text), len(text) + len(piece)))
        text += piece
    encoding = tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
    labels = [token if any(learns(text, begin, end, b, e) for b, e in spans) else IGNORE
              for token, (begin, end) in zip(encoding["input_ids"], encoding["offset_mapping"])]
    return encoding["input_ids"] + behind, labels + behind


if __name__ == "__main__":
    if not MATERIAL.is_dir():
        tests = [name for name in dict(globals()) if name.startswith("test_")]
        print(f"SKIP: {len(tests)} tests: {MATERIAL} is absent")
        sys.exit(0)
    sys.exit(run_tests(dict(globals()), __doc__))
