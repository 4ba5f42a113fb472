#!/usr/bin/env python3
"""Rows of every shape, and rows that are wrong, through the ftune binary.

    test_shapes.py --ftune BINARY --work FOLDER [NAME …]
"""

import json
import sys
from pathlib import Path

from cli_case import TINY, edit_json, model_copy, run_tests

DATASETS = Path(__file__).resolve().parents[3] / "shared" / "material" / "datasets"
ASK = {"role": "user", "content": "Why?"}
ANSWER = {"role": "assistant", "content": "So."}


def recipe(case, rows="rows.jsonl", entry="", data="", model=TINY):
    (case.folder / "recipe.yaml").write_text(
        f"model: {{path: {model}}}\noutput_dir: out\nadapter: {{lora_r: 2}}\n"
        f"data: {{train: [{{path: {rows}{entry}}}], sequence_len: 512{data}}}\n"
        "train: {global_batch_size: 2, max_steps: 1}\n")
    return "recipe.yaml"


def inspect(case, rows, entry="", data=""):
    if isinstance(rows, list):
        case.rows(rows, "rows.jsonl")
        rows = "rows.jsonl"
    done = case.run("inspect", recipe(case, rows, entry, data), "--json", "--count", 1000)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def refused(case, line, says, entry="", data=""):
    """A good row and then `line`, which is wrong."""
    good = json.dumps({"messages": [ASK, ANSWER]})
    (case.folder / "rows.jsonl").write_bytes(
        good.encode() + b"\n" + (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
    error = case.fails(4, "inspect", recipe(case, entry=entry, data=data), says=["rows.jsonl:2: error: ", *says])
    assert len(error["message"]) < 1000, len(error["message"])


def test_bad_rows(case):
    refused(case, {"messages": [ASK, {"role": "narrator", "content": "x"}]},
            ["messages[1].role: unknown role", '"narrator"', "system, developer, user, assistant, tool", "roles: {narrator"])
    refused(case, {"messages": [ASK]}, ["messages: no message of the assistant to learn from", "the roles user"])
    refused(case, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, ANSWER]},
            ["messages[0].content[0]: only parts of text", "image_url"])
    refused(case, {"messages": [{"role": "user", "content": [[{"type": "text", "text": "x"}]]}, ANSWER]},
            ["messages[0].content[0]: only parts of text"])
    refused(case, b'{"messages": [{"role": "user", "role": "assistant", "content": "x"}]}', ["role", "twice"])
    refused(case, {"messages": [{"role": "user", "content": "a\0b"}, ANSWER]},
            ["messages[0].content: a NUL character at byte 2"])
    refused(case, b'{"messages": "' + b"x" * 10_000_000 + b'"}', ["messages: found", "a list"])
    refused(case, b'{"messages": ' + b"[" * 5_000_000 + b"]" * 5_000_000 + b"}", ["nested"])
    refused(case, {"messages": [ASK, {**ANSWER, "reasoning_content": "Because."}]},
            ["messages[1].reasoning_content: the chat template does not write this message's reasoning", "data.chat_template"])
    refused(case, {"messages": [ASK, ANSWER], "tools": [{"type": "function", "function": {"name": "f"}}]},
            ["tools: the chat template does not write the row's tools", "data.chat_template"])
    refused(case, {"text": "x"}, ["the row has no messages", "the keys text"])


def test_long_line(case):
    """A row of ten megabytes is a row: read, counted and left out for its length."""
    big = {"messages": [ASK, {"role": "assistant", "content": "word " * 2_000_000}]}
    shown = inspect(case, [{"messages": [ASK, ANSWER]}, big])
    assert shown["samples"] == 1 and shown["dropped"] == {"too_long": 1}, shown["dropped"]


def test_mapping(case):
    rows = [{"chat": [{"who": "boss", "says": "Why?"}, {"who": "bot", "says": "So."}], "messages": "other"}]
    mapped = inspect(case, rows, ", columns: {messages: chat, role: who, content: says}, roles: {boss: user, bot: assistant}")
    plain = inspect(case, [{"messages": [ASK, ANSWER]}])
    assert mapped["shown"] == plain["shown"]
    assert mapped["audit"]["formats"] == {"messages": 1}
    case.fails(4, "inspect", recipe(case, entry=", columns: {messages: chats}"),
               says=["columns.messages: the first row has no chats", "the keys messages"])
    case.fails(2, "inspect", recipe(case, entry=", columns: {message: chat}"), says=["did you mean messages?"])
    case.fails(2, "inspect", recipe(case, entry=", roles: {bot: asistant}"), says=["did you mean assistant?"])
    both = inspect(case, [{"messages": [ASK, ANSWER]}], data=", roles_to_train: [user, assistant]")
    trained = [i for i, label in zip(both["shown"][0]["ids"], both["shown"][0]["labels"]) if label != -100]
    assert len(trained) > sum(label != -100 for label in plain["shown"][0]["labels"])


def test_shapes(case):
    """The same conversation in each shape gives the same tokens and labels."""
    wanted = inspect(case, [{"messages": [ASK, ANSWER]}])["shown"]
    for name, row in {
            "sharegpt": {"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]},
            "alpaca": {"instruction": "Why?", "input": "", "output": "So."},
            "prompt_completion": {"prompt": [ASK], "completion": [ANSWER]},
            "tokens": {"input_ids": wanted[0]["ids"], "labels": wanted[0]["labels"]}}.items():
        for entry in ("", f", format: {name}"):
            shown = inspect(case, [row], entry)
            assert shown["shown"] == wanted, (name, shown["shown"], wanted)
            assert shown["audit"]["formats"] == {name: 1}, shown["audit"]
    for name, row in {"segments": {"segments": [{"text": "Why?", "label": False}, {"text": "So.", "label": True}]},
                      "text": {"text": "Why? So."}}.items():
        assert inspect(case, [row])["audit"]["formats"] == {name: 1}


def test_audit(case):
    case.rows([{"messages": [ASK, ANSWER]}, {"messages": [ASK, {**ANSWER, "weight": 0}]}], "rows.jsonl")
    done = case.run("train", recipe(case))
    assert done.returncode == 0, done.stderr
    for part in ("audit: 2 samples: 2 from messages rows", "assistant 4 of", "1 of 2 samples (50 %) have nothing to learn",
                 "rows.jsonl:2", "end as generation does, with <|im_end|> (1)", "[[So.⟨<|im_end|>⟩]]"):
        assert part in done.stderr, f"'{part}' is not in: {done.stderr}"
    audit = json.loads((case.folder / "out" / "data" / "audit.json").read_text())
    assert audit["untrained_samples"] == 1 and audit["first_untrained"] == "rows.jsonl:2", audit
    assert "[[So." in audit["first_sample"] and audit["open_turns"] == 0, audit
    stops = ["rows.jsonl:2: error: data.audit.max_untrained_samples", "1 of 2 samples (50 %)", "at most 40 %"]
    limit = recipe(case, data=", audit: {max_untrained_samples: 0.4}")
    case.fails(4, "train", limit, "--force", says=stops)
    assert case.run("inspect", limit).returncode == 0  # which is where one looks for why
    model = model_copy(case)
    (model / "generation_config.json").unlink()
    edit_json(model / "config.json", lambda config: config.update(eos_token_id=0))
    edit_json(model / "tokenizer_config.json", lambda config: config.update(eos_token="<|endoftext|>"))
    never = recipe(case, model=model)
    case.fails(4, "train", never, "--force",
               says=["rows.jsonl:1: error: data.audit.max_open_turns: the model would not learn to stop", "<|im_end|> (1)",
                     "an end with <|endoftext|>"])
    assert "warning: 1 of 1 trained turns" in case.run("inspect", never).stdout
    assert case.run("train", never, "--force", "data.audit.max_open_turns=1").returncode == 0
    case.rows([{"input_ids": [0, 0, 5, 6]}], "rows.jsonl")
    case.fails(4, "train", recipe(case), "--force", says=["rows.jsonl:1: error: data.audit.max_doubled_bos"])


def test_dropped_rows(case):
    """Beyond half of the rows a run stops, whatever took them: the length policy or on_bad_row."""
    good, long = {"messages": [ASK, ANSWER]}, {"messages": [ASK, {**ANSWER, "content": "word " * 600}]}
    for rows, data, said in (([good, long, long], "", ["rows.jsonl:2: error: ", "2 too_long", "data.sequence_len"]),
                             ([good, {"messages": 1}, long], ", on_bad_row: skip",
                              ["rows.jsonl:2: error: ", "1 bad_row, 1 too_long", "data.on_bad_row"])):
        case.rows(rows, "rows.jsonl")
        case.fails(4, "train", recipe(case, data=data), "--force",
                   says=["data.audit.max_dropped_rows", "2 of 3 rows (66.67 %)", *said])
        assert case.run("train", recipe(case, data=data + ", audit: {max_dropped_rows: 0.7}"), "--force").returncode == 0
    case.rows([{"messages": 1}] * 3, "rows.jsonl")
    case.fails(4, "train", recipe(case, data=", on_bad_row: skip"), "--force",
               says=["all 3 were dropped", "rows.jsonl:1: error: messages", "data.on_bad_row"])


def test_material(case):
    """What is neither of the shapes is refused by name, with what to do; the rest is read."""
    if not DATASETS.is_dir():
        print(f"SKIP: {DATASETS} is absent")
        return

    def rows(name):
        text = (DATASETS / name).read_text()
        case.rows(json.loads(text) if text.lstrip().startswith("[") else map(json.loads, text.splitlines()), "rows.jsonl")
        return recipe(case)

    case.fails(4, "inspect", rows("llamafactory/dpo_en_demo.json"), says=["preference data", "{messages: chosen}"])
    case.fails(4, "inspect", rows("torchtune/hh_rlhf_tiny.json"), says=["preference data"])
    case.fails(4, "inspect", rows("torchtune/stack_exchange_paired_tiny.json"), says=["preference data", "response_j"])
    case.fails(4, "inspect", rows("oasst/en_100_tree.jsonl"), says=["trees of messages", "rows of messages"])
    case.fails(4, "inspect", rows("gsm8k/test.jsonl"), says=["columns: {instruction: question, output: answer}"])
    case.fails(4, "inspect", rows("torchtune/instruct_tiny.json"), says=["{instruction: instruction, output: response}"])
    case.fails(4, "inspect", rows("bfcl/BFCL_v4_live_parallel.jsonl"), says=["the keys id, question, function"])
    for name, shape in {"llamafactory/alpaca_en_demo.json": "alpaca", "llamafactory/identity.json": "alpaca",
                        "torchtune/alpaca_tiny.json": "alpaca", "torchtune/chat_tiny.json": "sharegpt",
                        "sharegpt/fastchat_dummy_conversation.json": "sharegpt", "mlx/lora_train.jsonl": "text",
                        "mlx/lora_valid.jsonl": "text"}.items():
        rows(name)
        formats = inspect(case, "rows.jsonl")["audit"]["formats"]
        assert list(formats) == [shape], (name, formats)


if __name__ == "__main__":
    sys.exit(run_tests(dict(globals()), __doc__))
