"""Qwen3: a norm of every head's queries and keys. SmolLM3: layers without positions."""

from variant import Variant, hf_config

QWEN3_SMOLLM3 = [
    Variant(
        "qwen3",  # head_dim that is not hidden ÷ heads; tied; old dialect
        hf_config(
            "qwen3", "Qwen3ForCausalLM",
            vocab_size=66, hidden_size=32, intermediate_size=28, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=12, max_position_embeddings=128,
            max_window_layers=2, rms_norm_eps=1e-6, rope_scaling=None, rope_theta=1000000,
            attention_bias=False, sliding_window=None, use_sliding_window=False, tie_word_embeddings=True,
            torch_dtype="bfloat16",
        ),
        dtype="BF16",
        seed=41,
        matters=("qk_norm",),
    ),
    Variant(
        "qwen3-window",  # untied; the layers' types are listed, and max_window_layers says another thing; new dialect
        hf_config(
            "qwen3", "Qwen3ForCausalLM",
            vocab_size=65, hidden_size=24, intermediate_size=20, num_hidden_layers=3,
            num_attention_heads=3, num_key_value_heads=1, head_dim=10, max_position_embeddings=128,
            max_window_layers=2, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            attention_bias=True, sliding_window=6, use_sliding_window=True,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            tie_word_embeddings=False, dtype="float32",
        ),
        seed=42,
        matters=("qk_norm", {"sliding_window": 7}, {"layer_types": None}),
    ),
    Variant(
        "smollm3",  # every fourth layer has no positions; tied by default; old dialect
        hf_config(
            "smollm3", "SmolLM3ForCausalLM",
            vocab_size=70, hidden_size=24, intermediate_size=20, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, max_window_layers=28,
            rms_norm_eps=1e-6, rope_scaling=None, rope_theta=5000000.0, is_llama_config=True,
            layer_types=["full_attention"] * 4, no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0],
            attention_bias=False, mlp_bias=False, pad_token_id=64, pretraining_tp=2,
            sliding_window=None, use_sliding_window=False, torch_dtype="float32",
        ),
        seed=43,
        matters=({"no_rope_layers": [1, 1, 1, 1]},),
    ),
    Variant(
        # the interval instead of the list; layers without positions have a window; YaRN with its attention factor;
        # biases in the MLP; new dialect
        "smollm3-yarn",
        hf_config(
            "smollm3", "SmolLM3ForCausalLM",
            vocab_size=66, hidden_size=32, intermediate_size=20, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128, rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0, "attention_factor": 1.25,
                             "original_max_position_embeddings": 64},
            no_rope_layer_interval=2, attention_bias=True, mlp_bias=True, pad_token_id=64,
            sliding_window=8, use_sliding_window=True, tie_word_embeddings=False, dtype="float32",
        ),
        seed=44,
        matters=({"no_rope_layer_interval": 4}, {"rope_parameters.attention_factor": None},
                 {"use_sliding_window": False}),
    ),
]
