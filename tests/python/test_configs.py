#!/usr/bin/env python3
"""Real config.json files: ftune takes each, or refuses it for the reason that is expected here.

    test_configs.py --ftune BINARY --work FOLDER [--material FOLDER]

A folder with a config.json and nothing else is opened. A config that is taken leads to the complaint that there are no
weights; one that is refused, to a message with the file, the key and the reason. Standard library only. Where the
material is absent, the tests are skipped, which is said and counted.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

MATERIAL = Path(__file__).resolve().parents[3] / "shared" / "material" / "model_configs"
NO_WEIGHTS = "the folder has no weights"
WRONG_DATA = 4  # exit status

ACCEPTED = ()
# Below the material's folder, without ".config.json" → what the message must say, or ACCEPTED.
EXPECTED = {
    "executorch_mediatek/Llama-3.2-1B-Instruct": ACCEPTED,  # its rope_scaling was left out by whoever edited it
    "executorch_mediatek/Llama-3.2-3B-Instruct": ACCEPTED,
    "executorch_mediatek/Qwen2-1.5B-Instruct": ACCEPTED,
    "executorch_mediatek/Qwen2-7B-Instruct": ACCEPTED,
    "executorch_mediatek/Qwen2.5-0.5B-Instruct": ACCEPTED,
    "executorch_mediatek/Qwen2.5-3B": ACCEPTED,  # "use_mrope": false
    "executorch_mediatek/Qwen3-1.7B": ACCEPTED,
    "executorch_mediatek/Qwen3-4B": ACCEPTED,
    "executorch_mediatek/gemma2_2b_it": ACCEPTED,
    # The wrapper's model_type on the text model's keys: neither is what transformers would load.
    "executorch_mediatek/gemma3_1b_it": ("text_config", "multimodal", "gemma3_text"),
    "executorch_mediatek/llama3-8B-instruct": ACCEPTED,  # without "architectures"
    # Microsoft's file says phi3.
    "executorch_mediatek/phi-4-mini-reasoning": ("model_type", "'phi4'", "phi3"),
    "executorch_mediatek/phi3.5-mini-instruct": ACCEPTED,  # longrope that never scales: both lengths are 4096
    "hf_style/Mixtral-8x7B-v0.1": ("model_type", "'mixtral'"),
    "hf_style/gemma2_9b": ACCEPTED,
    "hf_style/gemma3_1b_it": ACCEPTED,
    "hf_style/gpt2": ACCEPTED,
    "hf_style/llama2_13b": ACCEPTED,
    "hf_style/llama2_70b": ACCEPTED,
    "hf_style/llama2_7b": ACCEPTED,
    "hf_style/llama3_1_70b": ACCEPTED,
    "hf_style/llama3_1_8b": ACCEPTED,
    "hf_style/llama3_2_1b": ACCEPTED,
    "hf_style/llama3_2_3b": ACCEPTED,
    "hf_style/mistral_7b": ACCEPTED,  # without sliding_window, which is 4096 then
    "hf_style/phi-3_5": ACCEPTED,
    "hf_style/qwen2.5_3b": ACCEPTED,
    "hf_style/qwen2_0_5b": ACCEPTED,
    "hf_style/qwen2_7b": ACCEPTED,
    "hf_style/qwen3_0.6b": ACCEPTED,
    "hf_style/qwen3_1.7b": ACCEPTED,
    "hf_style/smollm2_135m": ACCEPTED,  # "rope_interleaved": false
    "hf_style/smollm2_360m": ACCEPTED,
    "hf_style/smollm_1_7b": ACCEPTED,
    "hf_style/tinyllama_1b_chat_v1.0": ACCEPTED,
}

# One change each of a config above that is taken: the key is named, never ignored.
CHANGES = [
    ("hf_style/llama3_1_8b", {"model_type": "olmo2"}, ("model_type", "'olmo2'")),
    ("hf_style/llama3_1_8b", {"rope_scaling": {"rope_type": "ntk-aware", "factor": 2.0}}, ("rope_scaling", "ntk-aware")),
    ("hf_style/llama3_1_8b", {"quantization_config": {"quant_method": "gptq"}}, ("quantization_config", "gptq")),
    ("hf_style/llama2_7b", {"hidden_act": "relu2"}, ("hidden_act", "relu2")),
    ("hf_style/llama2_7b", {"attn_logit_softcapping": 50.0}, ("attn_logit_softcapping", "50")),
    ("hf_style/qwen2_7b", {"num_key_value_heads": 3}, ("num_key_value_heads", "3")),
    ("hf_style/qwen3_0.6b", {"layer_types": ["linear_attention"] * 28}, ("layer_types", "linear_attention")),
    ("hf_style/phi-3_5", {"rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}},
     ("short_factor", "48")),
    ("hf_style/phi-3_5", {"partial_rotary_factor": 1.5}, ("partial_rotary_factor", "1.5")),
    ("hf_style/gemma2_9b", {"sliding_window": None}, ("sliding_window", "null")),
    ("hf_style/gemma3_1b_it", {"attn_logit_softcapping": 50.0}, ("attn_logit_softcapping", "50")),
    ("hf_style/gemma3_1b_it", {"use_bidirectional_attention": True}, ("use_bidirectional_attention", "true")),
    ("hf_style/gpt2", {"add_cross_attention": True}, ("add_cross_attention", "true")),
    ("hf_style/gpt2", {"scale_attn_by_inverse_layer_idx": True}, ("scale_attn_by_inverse_layer_idx", "true")),
    ("hf_style/smollm2_135m", {"rope_interleaved": True}, ("rope_interleaved", "true")),
]


def check(ftune, folder, config, reason):
    """→ what is wrong, or nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config)
    (folder / "rows.jsonl").write_text('{"input_ids": [1, 2, 3]}\n')
    done = subprocess.run([ftune, "eval", folder, folder / "rows.jsonl"], capture_output=True, text=True, timeout=60)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    if done.returncode != WRONG_DATA or len(errors) != 1:
        return f"exit status {done.returncode}, {len(errors)} messages: {done.stderr}"
    wanted = (str(folder / "config.json"), *reason) if reason else (f"{folder}: ", NO_WEIGHTS)
    missing = [part for part in wanted if part not in errors[0]]
    return f"not said: {missing}, but: {errors[0]}" if missing else None


def _cases(material):
    """→ name, the text of a config.json, the reason."""
    for name, reason in EXPECTED.items():
        yield name, (material / f"{name}.config.json").read_text(), reason
    for name, changes, reason in CHANGES:
        config = json.loads((material / f"{name}.config.json").read_text()) | changes
        yield f"{name} with {', '.join(changes)}", json.dumps(config), reason


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--material", type=Path, default=MATERIAL)
    arguments = parser.parse_args()
    if not arguments.material.is_dir():
        print(f"SKIP: {len(EXPECTED) + len(CHANGES)} configs: {arguments.material} is absent")
        return 0
    failed = 0
    there = {str(path.relative_to(arguments.material)).removesuffix(".config.json")
             for path in arguments.material.rglob("*.config.json")}
    for name in sorted(there ^ EXPECTED.keys()):
        failed += 1
        print(f"FAILED  {name}: only in {'the material' if name in there else 'the list here'}")
    if failed:
        return 1
    cases = list(_cases(arguments.material))
    for name, config, reason in cases:
        problem = check(arguments.ftune.resolve(), arguments.work.resolve() / "model", config, reason)
        failed += problem is not None
        print(f"FAILED  {name}: {problem}" if problem else f"ok      {name}")
    print(f"{len(cases)} configs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
