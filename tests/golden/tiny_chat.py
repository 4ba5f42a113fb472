"""A tiny model with a tokenizer and a chat template of its own, for tests of whole commands."""

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from model_files import write_json, write_model
from variant import Variant, hf_config

VOCABULARY = 320  # 256 bytes, 3 special tokens, 61 merges
BOS, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# What the merges are learned from.
CORPUS = [
    "The engine reads a recipe and trains the model on the conversations that the recipe names.",
    "user\nWhat does the engine read?",
    "assistant\nThe engine reads the recipe.",
    "system\nThis is the assistant of the engine.",
    "Whether the model fits is shown before the training starts.",
] * 4


def _variant():
    config = hf_config(
        "llama", "LlamaForCausalLM",
        vocab_size=VOCABULARY, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=512, rms_norm_eps=1e-5,
        rope_theta=10000.0, rope_scaling=None, tie_word_embeddings=True, torch_dtype="float32",
        bos_token_id=0, eos_token_id=2, pad_token_id=0)
    generation = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    return Variant("tiny-chat", config, generation_config=generation, seed=21)


def _tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True, normalized=False) for text in (BOS, START, END)]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(CORPUS, trainer)
    assert tokenizer.get_vocab_size() == VOCABULARY
    return tokenizer


def write(directory):
    write_model(_variant(), directory)
    tokenizer = _tokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    write_json(directory / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS, "eos_token": END, "pad_token": BOS, "unk_token": None,
        "add_bos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": 512,
        "chat_template": TEMPLATE,
    })
    write_json(directory / "special_tokens_map.json",
                             {"bos_token": BOS, "eos_token": END, "pad_token": BOS})
