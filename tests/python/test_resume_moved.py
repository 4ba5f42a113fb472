#!/usr/bin/env python3
"""Runs that go on from another working directory, whose files were moved, or whose model.init_from is gone; and what a run
stands for as model.init_from.

Standard library only. `test_resume_moved.py --ftune build/release/ftune --work FOLDER`.
"""

import json
import re
import shutil
import sys

from cli_case import CHATS, TINY, edit_json, model_copy, run_tests, tensors
from test_resume_cli import flip, good, steps, stopped_early, weights

STILL = "optimizer: {name: sgd, learning_rate: 1e-30, lr_scheduler: constant, warmup_steps: 0}\n"
SAVES = "checkpoint: {save_steps: 1, keep_last: 3}\n"


def local_files(case):
    """A run of three steps, of which everything is beside it under relative names. → its recipe"""
    model_copy(case)
    template = json.loads((TINY / "tokenizer_config.json").read_text())["chat_template"]
    (case.folder / "chat.jinja").write_text(template)
    (case.folder / "parts").mkdir()
    case.rows(CHATS[:6], "parts/a.jsonl")
    case.rows(CHATS[6:], "parts/b.jsonl")
    (case.folder / "recipe.yaml").write_text(
        "model: {path: ./model/}\ndata:\n  train: [chats.jsonl, parts/*.jsonl]\n  eval: [{path: parts/a.jsonl}]\n"
        "  chat_template: chat.jinja\n  prepared_path: prepared\n  sequence_len: 128\nadapter: {lora_r: 4}\n"
        "train: {global_batch_size: 2, max_steps: 3, num_epochs: 9}\n" + SAVES)
    good(case.run("train", "recipe.yaml", "output_dir=out", "--quiet"))
    return "recipe.yaml"


def line(case, name, run="out"):
    """The value of a key in a run's recipe."""
    return re.search(rf"^ +(?:- )?{name}: (.*)$", (case.folder / run / "recipe.yaml").read_text(), re.M)[1]


def in_recipe(case, run="out"):
    return (case.folder / run / "recipe.yaml").read_text()


def started(case, run, recipe, *overrides):
    """A run under that name, with a checkpoint a step, that has ended. → its folder"""
    (case.folder / f"{run}.yaml").write_text(recipe)
    good(case.run("train", f"{run}.yaml", f"output_dir={run}", "--quiet", *overrides))
    return case.folder / run


def recipe_of(more="", model=f"path: {TINY}", train="max_steps: 3"):
    return (f"model: {{{model}}}\ndata: {{train: chats.jsonl, sequence_len: 128}}\n"
            f"train: {{global_batch_size: 2, num_epochs: 9, {train}}}\n{SAVES}{more}")


# --- another working directory ---------------------------------------------------------------------------------------

def test_other_folder(case):
    """The run does not depend on where it is called from: its recipe has its paths whole."""
    recipe = local_files(case)
    text = in_recipe(case)
    for path in ("model", "chats.jsonl", "parts/*.jsonl", "parts/a.jsonl", "chat.jinja", "prepared"):
        assert re.search(rf': "?{re.escape(str(case.folder.resolve() / path))}"?[,\n]', text), (path, text)
    assert not re.search(r'path: "?[^/"]', text.replace("prepared_path: auto", "")), text
    assert "# from ./model" not in text and "output_dir: out\n" in text, text
    manifest = json.loads((case.folder / "out" / "checkpoints" / "step-00000003" / "manifest.json").read_text())
    assert f"path: {case.folder.resolve()}/model\n" in manifest["recipe"] and not manifest["adapter"] == manifest["data"] == "", manifest
    shutil.copytree(case.folder / "out", case.folder / "copy")
    shutil.copytree(case.folder / "out", case.folder / "third")
    good(case.run("resume", "out", "train.max_steps=5", "--quiet"))
    away = case.folder / "some" / "where"
    away.mkdir(parents=True)
    done = good(case.run("resume", "../../copy", "train.max_steps=5", folder="some/where"))
    assert "goes on from step 3" in done.stderr, done.stderr
    assert weights(case, "copy") == weights(case)
    assert in_recipe(case, "copy").replace("../../copy", "out") == in_recipe(case)
    # The same recipe, as it is named from there.
    moved = (case.folder / recipe).read_text()
    for name in ("./model/", "chats.jsonl", "parts/*.jsonl", "parts/a.jsonl", "chat.jinja", "prepared"):
        moved = re.sub(rf"(?<=[ \[]){re.escape(name)}(?=[\n,\]}}])", f"../../{name}", moved)
    (away / "r.yaml").write_text(moved.replace("max_steps: 3", "max_steps: 5"))
    good(case.run("train", "r.yaml", "output_dir=../../third", "--resume", "--quiet", folder="some/where"))
    assert weights(case, "third") == weights(case)


def test_folder_with_brackets(case):
    """A working directory whose name is a pattern is one name in a pattern of the data."""
    home = case.folder / "a[1]*"
    (home / "parts").mkdir(parents=True)
    case.rows(CHATS, "a[1]*/parts/x.jsonl")
    (case.folder / "a1" / "parts").mkdir(parents=True)
    case.rows(CHATS[:2], "a1/parts/x.jsonl")
    (home / "r.yaml").write_text(recipe_of("adapter: {lora_r: 4}\n").replace("chats.jsonl", "parts/*.jsonl"))
    good(case.run("train", "r.yaml", "output_dir=out", "--quiet", folder=home.name))
    done = good(case.run("resume", "a[1]*/out", "train.max_steps=4"))
    assert "step 4/4" in done.stderr, done.stderr


def test_standard_input(case):
    """No path: it stays what it is, and is sent again."""
    rows = (case.folder / "chats.jsonl").read_text()
    (case.folder / "recipe.yaml").write_text(recipe_of("adapter: {lora_r: 4}\n").replace("chats.jsonl", '"-"'))
    good(case.run("train", "recipe.yaml", "output_dir=out", "--quiet", text=rows))
    assert re.search(r"path: [\"']?-[\"']?[,\n]", in_recipe(case)), in_recipe(case)
    good(case.run("resume", "out", "train.max_steps=4", "--quiet", text=rows))
    assert case.log()[-1]["step"] == 4


def test_relative_run(case):
    """What an earlier ftune has written is relative to where the run was begun."""
    local_files(case)
    path = case.folder / "out" / "recipe.yaml"
    path.write_text(path.read_text().replace(f"{case.folder.resolve()}/", ""))
    edit_json(case.folder / "out" / "inputs.json", lambda inputs: inputs.__setitem__(
        slice(None), [i for i in inputs if i["key"] in ("model.path", "data.train")]))
    for manifest in (case.folder / "out" / "checkpoints").glob("*/manifest.json"):
        text = json.loads(manifest.read_text())
        del text["xxh3"], text["data"], text["adapter"]
        text["recipe"] = text["recipe"].replace(f"{case.folder.resolve()}/", "")
        manifest.write_text(json.dumps(text))
    (case.folder / "away").mkdir()
    done = case.run("resume", "../out", "train.max_steps=4", folder="away")
    assert done.returncode == 2 and "model.path" in done.stderr and "which is not there" in done.stderr, done.stderr
    good(case.run("resume", "out", "train.max_steps=4", "--quiet"))
    assert f"path: {case.folder.resolve()}/model\n" in in_recipe(case)
    good(case.run("resume", "../out", "train.max_steps=5", "--quiet", folder="away"))
    assert case.log()[-1]["step"] == 5


# --- files that are elsewhere now ------------------------------------------------------------------------------------

MOVED = ("model.path=new/m", "data.train=[{path: new/c.jsonl}, {path: new/p/*.jsonl}]", "data.eval=[new/p/a.jsonl]",
         "data.chat_template=new/t.jinja")


def move(case):
    (case.folder / "new").mkdir()
    for old, new in (("model", "m"), ("chats.jsonl", "c.jsonl"), ("parts", "p"), ("chat.jinja", "t.jinja")):
        (case.folder / old).rename(case.folder / "new" / new)


def test_moved(case):
    """What is gone is named, with the override that says where it is; the same content anywhere will do."""
    recipe = local_files(case)
    shutil.copytree(case.folder / "out", case.folder / "copy")
    good(case.run("resume", "copy", "train.max_steps=6", "--quiet"))
    move(case)
    before = in_recipe(case)
    done = case.run("resume", "out", "train.max_steps=6")
    assert done.returncode == 2 and done.stderr.count("error:") == 5, done.stderr
    for key, path, hint in (("model.path", "model", "'model.path=PATH'"), ("data.train", "chats.jsonl", "'data.train=[{path: PATH}]'"),
                            ("data.train", "parts/*.jsonl", "'data.train=[{path: PATH}]'"), ("data.chat_template", "chat.jinja", "'data.chat_template=PATH'")):
        path = case.folder.resolve() / path
        assert re.search(rf"out/recipe.yaml:\d+: error: {key}: found '{re.escape(str(path))}', which is not there.*`ftune resume out {re.escape(hint)}`",
                         done.stderr), (key, done.stderr)
    assert in_recipe(case) == before
    for ranks in ([], ["parallel.data=2"]):
        run = "two" if ranks else "one"
        shutil.copytree(case.folder / "out", case.folder / run)
        done = good(case.run("resume", run, "train.max_steps=6", *MOVED, *ranks))
        assert "goes on from step 3" in done.stderr, done.stderr
        assert f"path: {case.folder.resolve()}/new/m\n" in in_recipe(case, run)
    assert weights(case, "one") == weights(case, "copy")
    # Checkpoints from before the move are this run's: it goes back to them, and removes what it need not keep.
    names = sorted(path.name for path in (case.folder / "one" / "checkpoints").iterdir())
    assert names == [f"step-0000000{i}" for i in (4, 5, 6)], names
    good(case.run("resume", "out", "train.max_steps=4", *MOVED, "--quiet"))
    done = good(case.run("resume", "out", "--step", "2"))
    assert "goes on from step 2" in done.stderr, done.stderr
    # A recipe that names the new places is that of the run too.
    text = (case.folder / recipe).read_text()
    for old, new in (("./model/", "new/m"), ("[chats.jsonl, parts/*.jsonl]", "[new/c.jsonl, new/p/*.jsonl]"), ("parts/a", "new/p/a"),
                     ("chat.jinja", "new/t.jinja"), ("max_steps: 3", "max_steps: 7")):
        assert old in text, old
        text = text.replace(old, new)
    (case.folder / recipe).write_text(text)
    good(case.run("train", recipe, "output_dir=out", "--resume", "--quiet"))
    assert case.log()[-1]["step"] == 7


def test_other_content(case):
    """At another place, something else is refused, with what was there and what is."""
    local_files(case)
    move(case)
    before = in_recipe(case)
    model, chats, template = (case.folder / "new" / name for name in ("m/model.safetensors", "c.jsonl", "t.jinja"))
    flip(model)
    error = case.fails(4, "resume", "out", "train.max_steps=4", *MOVED,
                       says=["model.path", "something else than when the run began", "new/m/model.safetensors",
                             f"{case.folder.resolve()}/model/model.safetensors"])
    assert re.search(r"[0-9a-f]{16}", error["found"]) and re.search(r"[0-9a-f]{16}", error["expected"]), error
    flip(model)
    rows = chats.read_text()
    chats.write_text(rows.replace("It is 4.", "It is 5."))
    case.fails(4, "resume", "out", "train.max_steps=4", *MOVED, says=["data.train", "new/c.jsonl", f"{case.folder.resolve()}/chats.jsonl"])
    chats.write_text(rows)
    template.write_text(template.read_text() + "{# another #}")
    case.fails(4, "resume", "out", "train.max_steps=4", *MOVED, says=["data.chat_template", "new/t.jinja", "chat.jinja"])
    # Neither is there anything to compare with where nothing was there, nor where something else changes too.
    case.fails(2, "resume", "out", *MOVED, "data.train=[{path: new/c.jsonl, weight: 2}, {path: new/p/*.jsonl}]", says=["data.train", "weight: 2"])
    case.fails(2, "resume", "out", *MOVED, "model.init_from=new/m", says=["model.init_from", "found", "new/m", "expected null"])
    case.fails(2, "resume", "out", *MOVED, "model.path=./new/none", says=["model.path", "new/none", "not there"])
    assert in_recipe(case) == before
    (case.folder / "out" / "inputs.json").unlink()
    done = case.run("resume", "out", *MOVED)
    assert done.returncode == 2 and re.search(rf"model.path: .*found {case.folder.resolve()}/new/m, expected {case.folder.resolve()}/model", done.stderr), done.stderr


def test_moved_evaluation(case):
    """Where the best loss decides, evaluation data may be elsewhere but not another."""
    case.rows(CHATS[:4], "e.jsonl")
    recipe = recipe_of("adapter: {lora_r: 4}\n", train="max_steps: 3, eval_steps: 1, early_stopping_patience: 9")
    started(case, "out", recipe.replace("train: chats.jsonl", "train: chats.jsonl, eval: e.jsonl"))
    (case.folder / "e.jsonl").rename(case.folder / "f.jsonl")
    good(case.run("resume", "out", "train.max_steps=4", "data.eval=[f.jsonl]", "--quiet"))
    case.rows(CHATS[:5], "f.jsonl")
    case.fails(4, "resume", "out", "train.max_steps=5", says=["data.eval", "something else than when the run began", "f.jsonl"])
    # Where it does not, it is free.
    good(case.run("resume", "out", "train.max_steps=5", "train.early_stopping_patience=null", "--quiet"))


def test_moved_stream(case):
    """Nobody knows what streamed data will hold: it stays where it is."""
    recipe = recipe_of("adapter: {lora_r: 4}\n").replace("chats.jsonl", "chats.jsonl, streaming: true").replace("num_epochs: 9, ", "")
    started(case, "out", recipe)
    (case.folder / "chats.jsonl").rename(case.folder / "c.jsonl")
    case.fails(2, "resume", "out", "data.train=[c.jsonl]", says=["data.train", f"{case.folder.resolve()}/c.jsonl", f"{case.folder.resolve()}/chats.jsonl"])


# --- weights that a checkpoint has -----------------------------------------------------------------------------------

def test_init_gone(case):
    """A checkpoint has all that was trained: what it began with is not opened, here or on another mesh."""
    first = started(case, "first", recipe_of())
    out = started(case, "out", recipe_of(model=f"path: {TINY}, init_from: first"), "train.seed=7")
    assert line(case, "init_from") == f"{first.resolve()}/checkpoints/step-00000003  # from {first.resolve()}", in_recipe(case)
    shutil.copytree(out, case.folder / "copy")
    good(case.run("resume", "copy", "train.max_steps=5", "--quiet"))
    for run, damage in (("damaged", lambda: flip(next((first / "checkpoints" / "step-00000003").glob("values*")))),
                        ("gone", lambda: shutil.rmtree(first))):
        damage()
        shutil.copytree(out, case.folder / run)
        good(case.run("resume", run, "train.max_steps=5", "--quiet"))
        assert (case.folder / run / "model" / "model.safetensors").read_bytes() == \
            (case.folder / "copy" / "model" / "model.safetensors").read_bytes(), run
        inputs = json.loads((out / "inputs.json").read_text())
        assert json.loads((case.folder / run / "inputs.json").read_text()) == inputs
        assert {i["key"] for i in inputs} == {"model.path", "model.init_from", "data.train"}, inputs
    # It goes on from there as from any other, on several ranks too.
    good(case.run("resume", "gone", "--step", "4", "--quiet"))
    good(case.run("resume", "gone", "train.max_steps=6", "parallel.data=2", "parallel.zero=3", "--quiet"))
    # Before the first checkpoint there is nothing else.
    shutil.rmtree(out / "checkpoints")
    case.fails(2, "resume", "out", says=["model.init_from", "no checkpoint yet", f"{first.resolve()}/checkpoints/step-00000003"])
    # The model itself is needed still: its configuration and tokenizer.
    case.fails(2, "resume", "gone", "model.path=none", "train.max_steps=7", says=["model.path", "none", "not there"])


def test_init_is_needed(case):
    """What is frozen is in no checkpoint of the run: it is looked for, and named where it is gone."""
    first = started(case, "first", recipe_of())
    init = f"path: {TINY}, init_from: first"
    started(case, "frozen", recipe_of(model=init, train="max_steps: 3, freeze: [embed_tokens]"))
    started(case, "based", recipe_of("adapter: {lora_r: 4}\n", model=init))
    shutil.copytree(first, case.folder / "other")
    shutil.rmtree(first)
    place = f"{first.resolve()}/checkpoints/step-00000003"
    for run in ("frozen", "based"):
        case.fails(2, "resume", run, "train.max_steps=4", says=["model.init_from", "does not train", place, "'model.init_from=PATH'"])
        # A copy of it will do, another one will not.
        case.fails(4, "resume", run, "train.max_steps=4", "model.init_from=other/checkpoints/step-00000002",
                   says=["model.init_from", "something else than when the run began"])
        good(case.run("resume", run, "train.max_steps=4", "model.init_from=other/checkpoints/step-00000003", "--quiet"))


def test_adapter_init_gone(case):
    """An adapter that went on from another one's checkpoint has all of it."""
    first = started(case, "first", recipe_of("adapter: {lora_r: 3, target_modules: [q_proj, down_proj]}\n"))
    out = started(case, "out", recipe_of("adapter: {kind: lora}\n", model=f"path: {TINY}, init_from: first"), "train.seed=7")
    shutil.copytree(out, case.folder / "copy")
    good(case.run("resume", "copy", "train.max_steps=5", "--quiet"))
    shutil.rmtree(first)
    good(case.run("resume", "out", "train.max_steps=5", "--quiet"))
    assert weights(case) == weights(case, "copy")
    good(case.run("resume", "out", "train.max_steps=6", "parallel.data=2", "--quiet"))


# --- a run as model.init_from ----------------------------------------------------------------------------------------

def adapter_values(folder):
    return tensors(folder / "adapter_model.safetensors")


def test_init_from_run_of_adapter(case):
    """An adapter's shape that no recipe can say goes from run to run."""
    first = started(case, "first", recipe_of("adapter: {lora_r: 3, target_modules: [q_proj, v_proj]}\n"))
    peft = case.folder / "peft"
    shutil.copytree(first / "adapter", peft)
    edit_json(peft / "adapter_config.json",
              lambda c: c.update(target_modules=["q_proj", "v_proj", "k_proj"], exclude_modules=["k_proj"]))
    follow = "adapter: {kind: lora}\n"
    second = started(case, "second", recipe_of(follow, model=f"path: {TINY}, init_from: peft"))
    want = adapter_values(second / "adapter")
    assert want != adapter_values(first / "adapter")

    def third(name, init):
        run = started(case, name, recipe_of(follow + STILL, model=f"path: {TINY}, init_from: {init}"))
        assert adapter_values(run / "adapter") == want, name
        assert json.loads((run / "adapter" / "adapter_config.json").read_text())["exclude_modules"] == ["k_proj"], name
        return line(case, "init_from", name).split("  #")[0]

    home = second.resolve()
    assert third("a", "second") == f"{home}/checkpoints/step-00000003"
    assert third("b", "second/checkpoints/step-00000003/") == f"{home}/checkpoints/step-00000003"
    assert third("c", "second/adapter/") == f"{home}/adapter"
    # As an earlier ftune has written it, or where its checkpoints were removed: its result says it.
    shutil.copytree(second, case.folder / "older")
    manifest = case.folder / "older" / "checkpoints" / "step-00000003" / "manifest.json"
    text = json.loads(manifest.read_text())
    del text["xxh3"], text["adapter"]
    manifest.write_text(json.dumps(text))
    assert third("d", "older") == f"{home.parent}/older/adapter"
    shutil.rmtree(case.folder / "older" / "checkpoints")
    assert third("e", "older") == f"{home.parent}/older/adapter"
    # One that was interrupted stands for its newest checkpoint, whatever an earlier end has left.
    log = second / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    assert json.loads(lines[-1])["event"] == "end"
    log.write_text("".join(lines[:-1]))
    shutil.rmtree(second / "adapter")
    assert third("f", "second") == f"{home}/checkpoints/step-00000003"


def test_init_from_best(case):
    """A run that has ended stands for its result, which may be of an earlier step than its last."""
    _, best, last = stopped_early(case)
    assert best < last
    home = (case.folder / "out").resolve()
    want = adapter_values(home / "adapter")
    recipe = recipe_of("adapter: {kind: lora}\n" + STILL, model=f"path: {TINY}, init_from: out")
    run = started(case, "a", recipe)
    assert adapter_values(run / "adapter") == want
    assert line(case, "init_from", "a").startswith(f"{home}/checkpoints/step-{best:08}"), in_recipe(case, "a")
    flip(next((home / "checkpoints" / f"step-{best:08}").glob("values*")))
    run = started(case, "b", recipe)
    assert adapter_values(run / "adapter") == want and line(case, "init_from", "b").startswith(f"{home}/adapter")
    # Once it goes on it has not ended.
    log = home / "log.jsonl"
    log.write_text(log.read_text() + json.dumps({"event": "start", "step": last, "attempt": 2}) + "\n")
    started(case, "c", recipe)
    assert line(case, "init_from", "c").startswith(f"{home}/checkpoints/step-{last:08}"), in_recipe(case, "c")


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
