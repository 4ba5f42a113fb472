#!/usr/bin/env python3
"""`ftune template` beside transformers' own rendering, on conversations that are made up: the same text, or both refuse.

    test_templates.py --ftune BINARY --work FOLDER [NAME …]

Seeded; FTUNE_FUZZ_CASES (300) and FTUNE_FUZZ_SEED (1) may be set. Real models' templates are taken in where
../shared/material is.
"""

import json
import os
import random
import sys
from pathlib import Path

from cli_case import Case, run_tests

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


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
