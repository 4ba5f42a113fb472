"""Llama, Mistral-Nemo and Qwen2 with scaled rotary positions. The samples are 20, 11, 9, 33 and 13 tokens long."""

from variant import Variant, hf_config


def _llama(**fields):
    return hf_config(
        "llama", "LlamaForCausalLM",
        num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, hidden_size=24, intermediate_size=28,
        rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False, mlp_bias=False, pretraining_tp=1, **fields)


ROPE = [
    Variant(
        "llama-dynamic",  # samples on both sides of max_position_embeddings, and one as long as it; old dialect
        _llama(vocab_size=65, max_position_embeddings=13, rope_theta=10000.0,
               rope_scaling={"type": "dynamic", "factor": 2.0}, torch_dtype="float32"),
        seed=31,
        matters=({"rope_scaling": None}, {"rope_scaling.factor": 4.0}),
    ),
    Variant(
        "llama-dynamic-long",  # all samples are longer than max_position_embeddings; new dialect
        _llama(vocab_size=66, max_position_embeddings=8, head_dim=16,
               rope_parameters={"rope_type": "dynamic", "factor": 3.0, "rope_theta": 500.0}, dtype="float32"),
        seed=32,
        matters=({"rope_parameters.rope_type": "default"},),
    ),
    Variant(
        "llama-yarn",  # nothing given but what must be; old dialect
        _llama(vocab_size=67, max_position_embeddings=256, head_dim=16, rope_theta=10000.0,
               rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
               torch_dtype="float32"),
        seed=33,
        matters=({"rope_scaling": None}, {"rope_scaling.attention_factor": 1.0}, {"rope_scaling.beta_slow": 4.0}),
    ),
    Variant(
        # bounds that are not rounded (without the key they are), the two scales of DeepSeek; original length by
        # default max_position_embeddings; new dialect
        "llama-yarn-mscale",
        _llama(vocab_size=68, max_position_embeddings=96, head_dim=16,
               rope_parameters={"rope_type": "yarn", "rope_theta": 2000.0, "factor": 16.0, "beta_fast": 8,
                                "beta_slow": 2.5, "mscale": 1.4, "mscale_all_dim": 0.5, "truncate": False},
               dtype="float32"),
        seed=34,
        matters=({"rope_parameters.truncate": True}, {"rope_parameters.mscale": None},
                 {"rope_parameters.beta_fast": None}, {"rope_parameters.beta_slow": None}),
    ),
    Variant(
        "mistral-nemo",  # head_dim that is not hidden ÷ heads, sliding_window null; old dialect
        hf_config(
            "mistral", "MistralForCausalLM",
            vocab_size=70, hidden_size=30, intermediate_size=34, num_hidden_layers=2,
            num_attention_heads=3, num_key_value_heads=1, head_dim=12, max_position_embeddings=128,
            rms_norm_eps=1e-5, rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False,
            torch_dtype="bfloat16",
        ),
        dtype="BF16",
        seed=35,
    ),
    Variant(
        "qwen2-yarn",  # as the Qwen2.5 model cards tell to extend the context, with the old name of rope_type
        hf_config(
            "qwen2", "Qwen2ForCausalLM",
            vocab_size=66, hidden_size=32, intermediate_size=20, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32, max_window_layers=2,
            rms_norm_eps=1e-6, rope_theta=10000.0, use_sliding_window=False, sliding_window=32,
            rope_scaling={"factor": 4.0, "original_max_position_embeddings": 32, "type": "yarn"},
            tie_word_embeddings=True, torch_dtype="float32",
        ),
        seed=36,
        matters=({"rope_scaling": None},),
    ),
]
