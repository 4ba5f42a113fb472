#!/usr/bin/env python3
"""Chat templates as a user meets them: `ftune template` beside transformers' own rendering, on conversations that are made
up (the same text, or both refuse); wrong input; recipes that choose a template; the template that goes with a model.

    test_templates.py --ftune BINARY --work FOLDER [NAME …]

Seeded; FTUNE_FUZZ_CASES (300) and FTUNE_FUZZ_SEED (1) may be set. Real models' templates are taken in where
../shared/material is.
"""

import json
import os
import random
import sys
from pathlib import Path

from cli_case import TINY, run_tests

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
from template_golden import render_now  # noqa: E402

MATERIAL = ROOT.parent / "shared" / "material" / "chat_templates"
OWN = sorted((ROOT / "tests" / "unit" / "template" / "templates").glob("*.jinja"))
BUILTIN = sorted((ROOT / "data" / "template" / "builtin").glob("*.jinja"))

WORDS = ["", " ", "Hi", "yes", "¿Qué?", "日本語", "مرحبا", "😀👩‍👧", "a\n\nb", "\n", "  padded \n", "<think>", "</think>\n\nx",
         "<think>\nhm\n</think>\n\nans", "<|im_end|>", "<|eot_id|>", "</s>", "<tool_call>", "{{ x }}", "{% if %}", "\"q\" 'p' \\",
         "<b>&amp;</b>", "\u00a0\u2003", "\u0000", "\x1b[0m", "ß ſ İ", "x" * 300, "1", "None", "assistant", "user"]
VALUES = [None, True, False, 0, -7, 2 ** 53, 1.5, 1e-7, 1e22, -0.0, 0.1, "", "Zürich", "\"<&>'", [], {}, [1, [2, None]],
          {"b": 1, "a": {"é": [True]}}]


def text(rng):
    return rng.choice(WORDS) + rng.choice(["", "", rng.choice(WORDS)])


def tool(rng):
    properties = {name: {"type": rng.choice(["string", "integer", ["string", "null"], "object", "array"]),
                         **({"description": text(rng)} if rng.random() < 0.6 else {}),
                         **({"enum": ["C", "F"]} if rng.random() < 0.2 else {}),
                         **({"default": rng.choice(VALUES)} if rng.random() < 0.3 else {})}
                  for name in rng.sample(["city", "días", "unit", "q"], rng.randrange(4))}
    function = {"name": rng.choice(["weather", "f", "get_x"]), "description": text(rng),
                "parameters": {"type": "object", "properties": properties, "required": sorted(properties)[:1]}}
    if rng.random() < 0.2:
        function["return"] = {"type": "string", "description": text(rng)}
    return {"type": "function", "function": function}


def call(rng):
    arguments = {name: rng.choice(VALUES) for name in rng.sample(["city", "días", "unit", "q"], rng.randrange(4))}
    made = {"function": {"name": rng.choice(["weather", "f"]), "arguments": arguments}}
    if rng.random() < 0.7:
        made["id"] = "abcdefghi"
    if rng.random() < 0.8:
        made["type"] = "function"
    return made


def message(rng, role):
    made = {"role": role, "content": text(rng)}
    if rng.random() < 0.06:
        made["content"] = [{"type": "text", "text": text(rng)} for _ in range(rng.randrange(3))]
    if rng.random() < 0.03:
        made["content"] = None
    if role == "assistant":
        if rng.random() < 0.25:
            made[rng.choice(["reasoning_content", "reasoning_content", "thinking", "reasoning"])] = text(rng)
        if rng.random() < 0.2:
            made["tool_calls"] = [call(rng) for _ in range(rng.randrange(1, 3))]
            if rng.random() < 0.3:
                made["content"] = None
        elif rng.random() < 0.05:
            made["tool_calls"] = rng.choice([None, []])
    if role == "tool":
        made["name"] = "weather"
        if rng.random() < 0.7:
            made["tool_call_id"] = "abcdefghi"
    return made


def conversation(rng):
    messages = [message(rng, "system")] if rng.random() < 0.4 else []
    if rng.random() < 0.85:  # as real ones go
        for _ in range(rng.randrange(1, 4)):
            messages.append(message(rng, "user"))
            messages.append(message(rng, "assistant"))
            while messages[-1].get("tool_calls") and rng.random() < 0.9:
                messages += [message(rng, "tool") for _ in messages[-1]["tool_calls"]]
                messages.append(message(rng, "assistant"))
        if rng.random() < 0.2:
            messages.append(message(rng, "user"))
    else:
        roles = ["user", "assistant", "tool", "system", "developer", "critic"]
        messages += [message(rng, rng.choice(roles)) for _ in range(rng.randrange(1, 5))]
    made = {"messages": messages, "add_generation_prompt": rng.random() < 0.4}
    if rng.random() < 0.4:
        made["tools"] = [tool(rng) for _ in range(rng.randrange(3))]
    for key, values in {"enable_thinking": [True, False], "bos_token": ["<s>"], "eos_token": ["</s>", "<|end|>"],
                        "preserve_thinking": [True], "custom": VALUES}.items():
        if rng.random() < (0.8 if key.endswith("token") else 0.25):
            made[key] = rng.choice(values)
    return made


def expected(source, given):
    variables = dict(given)
    messages, tools = variables.pop("messages"), variables.pop("tools", None)
    prompt = variables.pop("add_generation_prompt")
    try:
        return render_now(source, messages, tools, variables, {}, prompt)
    except Exception as error:  # whatever Python raises, ftune must refuse as well
        return error


def test_fuzz(case):
    """Generated conversations, through all templates in turn."""
    files = OWN + BUILTIN + (sorted((MATERIAL / "jinja").glob("*/*.jinja")) if MATERIAL.exists() else [])
    if not MATERIAL.exists():
        print(f"SKIP real models' templates: {MATERIAL} is not there")
    rng = random.Random(int(os.environ.get("FTUNE_FUZZ_SEED", 1)))
    count = int(os.environ.get("FTUNE_FUZZ_CASES", 300))
    same = refused = 0
    for number in range(count):
        path = files[number % len(files)]
        given = conversation(rng)
        want = expected(path.read_text(), given)
        done = case.run("template", path, "--json", text=json.dumps(given, ensure_ascii=rng.random() < 0.5))
        got = json.loads(done.stdout)
        where = f"case {number}, {path.name}: {json.dumps(given, ensure_ascii=False)}\nwant {want!r}\ngot {got}"
        if isinstance(want, Exception):
            assert done.returncode != 0, where
            assert got["error"]["message"], where
            refused += 1
        else:
            # The day may have changed in between.
            assert got.get("text") in (want, expected(path.read_text(), given)), where
            same += 1
    print(f"{same} of {count} the same, {refused} refused by both")
    assert same > count // 2 and refused > count // 30, "the conversations test too little"


def short(answer):
    return [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": answer}]


CONVERSATION = json.dumps({"messages": short("Yo é"), "eos_token": "</s>"})


def test_mask(case):
    """--mask says which bytes are the assistant's."""
    for name in (path.stem for path in BUILTIN):
        done = case.run("template", name, "--mask", "--json", text=CONVERSATION)
        got = json.loads(done.stdout)
        assert done.returncode == 0, done.stderr
        [span] = got["spans"]
        words = got["text"].encode()[span["begin"]:span["end"]].decode()
        assert span["message"] == 1 and words.strip().startswith("Yo é") and len(words) > len("Yo é"), got
    done = case.run("template", "chatml", "--mask", text=CONVERSATION)
    assert json.loads(done.stdout.splitlines()[-1]) == [{"message": 1, "begin": 52, "end": 67}], done.stdout


def test_wrong_sources(case):
    """What is given for a template."""
    (case.folder / "empty.jinja").write_text("")
    (case.folder / "latin.jinja").write_bytes(b"{{ 'x' }}\n{{ '\xe9' }}")
    (case.folder / "broken.jinja").write_text("\n\n{{ 'x' | nosuch }}")
    (case.folder / "cyclic.jinja").write_text("{% macro f() %}\n{{ f() }}{% endmacro %}\n{{ f() }}")
    (case.folder / "itself.jinja").write_text("{% include 'itself.jinja' %}")
    (case.folder / "empty").mkdir()
    for code, source, says in [
            (2, "nosuch", ["SOURCE: found 'nosuch'", "a model's folder", "zephyr"]),
            (2, "nosuch.jinja", ["SOURCE: found 'nosuch.jinja'"]),
            (2, "nosuch.gguf", ["SOURCE: found 'nosuch.gguf'"]),
            (2, "", ["SOURCE"]),
            (4, "empty", ["no tokenizer"]),
            (4, "empty.jinja", ["empty.jinja: error: found an empty file"]),
            (4, "latin.jinja", ["latin.jinja:2: error: found bytes that are not UTF-8"]),
            (4, "broken.jinja", ["broken.jinja:3: error: No filter named 'nosuch'."]),
            (4, "cyclic.jinja", ["cyclic.jinja:2: error: the template recurses too deeply"]),
            (4, "itself.jinja", ["itself.jinja:1: error: the tag 'include' is not allowed"]),
            (2, "{{ 1", ["SOURCE: line 1 of the template: "]),
            (4, "{{ nosuch.x }}", ["SOURCE:1: error: 'nosuch' is undefined"])]:
        case.fails(code, "template", source, says=says, text=CONVERSATION)
    case.fails(4, "template", "zephyr", says=["'eos_token' is undefined", "beside the messages"],
               text='{"messages": [{"role": "user", "content": "x"}]}')


def test_wrong_conversations(case):
    """What is given on standard input."""
    for code, text, says in [
            (2, "", ["not JSON; found nothing"]),
            (2, "{", ["not JSON"]),
            (2, "[]", ["not a JSON object with messages"]),
            (2, "{}", ["not a JSON object with messages"]),
            (2, '{"messages": null}', ["messages: found null"]),
            (2, '{"messages": 5}', ["messages: found 5"]),
            (2, '{"messages": [5]}', ["messages[0]: a message has no role"]),
            (2, '{"messages": [{"content": "x"}]}', ["messages[0]: a message has no role"]),
            (2, '{"messages": [{"role": 5}]}', ["messages[0].role: found 5"]),
            (2, '{"messages": [], "tools": 5}', ["tools: found 5"]),
            (2, '{"messages": [], "add_generation_prompt": 1}', ["add_generation_prompt: found 1"]),
            (2, '{"messages": [], "eos_token": 1}', ["eos_token: found 1"]),
            (4, '{"messages": []}', ["an empty conversation"]),
            (4, '{"messages": [{"role": "user"}]}', ["chatml:2: error: 'dict object' has no attribute 'content'"])]:
        case.fails(code, "template", "chatml", says=says, text=text)


def settings(case, text, **chosen):
    """A recipe with these lines in its section data."""
    path = case.folder / case.recipe(**chosen)
    path.write_text(path.read_text().replace("sequence_len: 128}", "sequence_len: 128,\n  " + text + "}"))
    return path.name


def test_wrong_recipes(case):
    """The recipe's line and key are in the message."""
    at = "recipe.yaml:3: error: data."
    for code, text, says in [
            (2, "chat_template: nosuch", [at + "chat_template: found 'nosuch'", "auto", "zephyr"]),
            (2, "chat_template: 5", [at + "chat_template: found '5'"]),
            (2, 'chat_template: ""', [at + "chat_template: found \"\""]),
            (2, "chat_template: [chatml]", [at + "chat_template: found a list"]),
            (2, 'chat_template: "{% for m in messages %}"', [at + "chat_template: line 1 of the template: ", "never closed"]),
            (4, 'chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}"',
             ["chats.jsonl:1: error: ", "messages[1]: the template writes no end-of-turn token", "{% generation %}"]),
            (2, "chat_template_kwargs: 5", [at + "chat_template_kwargs: found 5"]),
            (2, "chat_template_kwargs: {messages: 1}", [at + "chat_template_kwargs.messages: each conversation sets"]),
            (2, 'chat_template_kwargs: {"a b": 1}', [at + "chat_template_kwargs.a b: not a name"]),
            (2, "chat_template_kwargs: {a: 1, a: 2}", [at + "chat_template_kwargs.a: given twice"]),
            (2, "split_turns: sometimes", [at + "split_turns: found sometimes"])]:
        case.fails(code, "train", settings(case, text), "output_dir=out", says=says)


def test_wrong_options(case):
    """The same choices on the command line of generate and eval."""
    generate = ["generate", TINY, "--chat", "Hi", "--max-new-tokens", 2]
    for command in (generate, ["eval", TINY, "chats.jsonl"]):
        case.fails(2, *command, "--chat-template", "nosuch", says=["command line: error: --chat-template: found 'nosuch'"])
        case.fails(2, *command, "--chat-template", "{{ 1", says=["command line: error: --chat-template: line 1 of the template"])
        assert case.run(*command, "--chat-template", "zephyr").returncode == 0
    for value, says in [("{", "found {"), ("[1]", "found [1]"), ('{"messages": []}', "messages: each conversation sets this")]:
        case.fails(2, *generate, "--chat-template-kwargs", value, says=["--chat-template-kwargs", says])
    assert case.run(*generate, "--chat-template-kwargs", '{"x": 1}').returncode == 0


# The answer to an earlier question is written without its last word, and the word by the variable `loud`.
CHANGING = ("{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content if loop.last else m.content.split()[0]) + "
            "('!' if loud else '') + eos_token }}{% endfor %}{{ '<|assistant|>' if add_generation_prompt }}")


def test_split_turns(case):
    """Turns that are written otherwise later are samples of their own, or refused."""
    (case.folder / "changing.jinja").write_text(CHANGING)
    turns = [{"role": role, "content": content} for role, content in
             [("user", "q"), ("assistant", "one two"), ("user", "r"), ("assistant", "three four")]]
    case.rows([{"messages": turns}] * 4)
    for value, count in [("auto", 8), ("true", 8)]:
        text = f"chat_template: changing.jinja, split_turns: {value}"
        done = case.run("train", settings(case, text), f"output_dir=out-{value}")
        assert done.returncode == 0 and f"{count} samples" in done.stderr + done.stdout, done.stderr
    case.fails(4, "train", settings(case, "chat_template: changing.jinja, split_turns: false"), "output_dir=out-false",
               says=["chats.jsonl:1: error: messages[1]: the chat template writes this turn otherwise", "data.split_turns"])


def rendered(folder):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer.apply_chat_template(short("Yo"), tokenize=False)


def test_template_goes_along(case):
    """transformers renders with what was trained, without being told; ftune too."""
    (case.folder / "loud.jinja").write_text(CHANGING)
    choices = [("chat_template: zephyr", "<|user|>\nHi<|im_end|>\n<|assistant|>\nYo<|im_end|>\n"),
               ("chat_template: loud.jinja, chat_template_kwargs: {loud: true, unused: \"a\\\"\\\\\\n{{b\"}",
                "<|user|>Hi!<|im_end|><|assistant|>Yo!<|im_end|>")]
    for number, (text, want) in enumerate(choices):
        recipe = settings(case, text)
        done = case.run("train", recipe, f"output_dir=out{number}")
        assert done.returncode == 0, done.stderr
        assert ("It is 0.!" in done.stdout + done.stderr) == ("loud: true" in text), "the audit's sample: " + done.stderr
        adapter = case.folder / f"out{number}" / "adapter"
        assert rendered(adapter) == want, rendered(adapter)
        for form, name in [("hf", "merged"), ("gguf", "merged.gguf")]:
            out = case.folder / f"{number}-{name}"
            done = case.run("export", f"out{number}", "--merge", "--format", form, "--out", out)
            assert done.returncode == 0, done.stderr
            done = case.run("template", out, text=json.dumps({"messages": short("Yo")}))
            assert done.stdout == want, (done.stdout, done.stderr)
        assert rendered(case.folder / f"{number}-merged") == want
    # A base in a GGUF file, whose tokenizer is copied otherwise.
    recipe = settings(case, "chat_template: zephyr", model="1-merged.gguf")
    assert case.run("train", recipe, "output_dir=out2").returncode == 0
    done = case.run("export", "out2", "--merge", "--format", "gguf", "--out", "2-merged.gguf")
    assert done.returncode == 0, done.stderr
    done = case.run("template", "2-merged.gguf", text=json.dumps({"messages": short("Yo")}))
    assert done.stdout == choices[0][1], (done.stdout, done.stderr)
    # The model's own stays as it is.
    done = case.run("train", case.recipe(), "output_dir=own")
    assert done.returncode == 0, done.stderr
    assert not (case.folder / "own" / "adapter" / "chat_template.jinja").exists()


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
