"""GPT-2 and Phi-3: families with fused projections. The samples are 20, 11, 9, 33 and 13 tokens long."""

from variant import Variant, hf_config


def _gpt2(**fields):
    return {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.1,
        "bos_token_id": 64,
        "embd_pdrop": 0.1,
        "eos_token_id": 64,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2",
        "n_layer": 2,
        "resid_pdrop": 0.1,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        **fields,
    }


def _phi3(**fields):
    return {
        **hf_config("phi3", "Phi3ForCausalLM", num_hidden_layers=2, rms_norm_eps=1e-5,
                    embd_pdrop=0.0, resid_pdrop=0.0, attention_bias=False, eos_token_id=64, pad_token_id=64),
        "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config",
                     "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
        **fields,
    }


GPT2_PHI3 = [
    Variant(
        "gpt2",  # as the first files of it are: no prefix in the names, mask buffers beside the weights
        _gpt2(n_ctx=48, n_embd=24, n_head=3, n_positions=48, vocab_size=65),
        seed=51,
        steps=("sgd",),
        names="gpt2_original",
        matters=("positions", {"activation_function": "relu"}),
    ),
    Variant(
        "gpt2-inner",  # as transformers saves it; n_inner that is not 4 × n_embd; untied
        _gpt2(n_embd=28, n_head=2, n_inner=36, n_positions=64, vocab_size=67, n_layer=3,
              reorder_and_upcast_attn=False, scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True,
              add_cross_attention=False, tie_word_embeddings=False, pad_token_id=None, dtype="float16"),
        dtype="F16",
        seed=52,
    ),
    Variant(
        "phi3",  # Phi-3-mini-4k: plain positions, a window; old dialect
        _phi3(vocab_size=66, hidden_size=24, intermediate_size=20, num_attention_heads=3, num_key_value_heads=3,
              max_position_embeddings=64, original_max_position_embeddings=64, rope_theta=10000.0,
              rope_scaling=None, sliding_window=9, tie_word_embeddings=False, torch_dtype="float32"),
        seed=53,
        matters=({"sliding_window": None},),
    ),
    Variant(
        "phi3-longrope",  # Phi-3.5-mini; all samples are short
        _phi3(vocab_size=67, hidden_size=24, intermediate_size=20, num_attention_heads=3, num_key_value_heads=3,
              max_position_embeddings=1024, original_max_position_embeddings=40, rope_theta=10000.0,
              rope_scaling={"long_factor": [1.5, 4.25, 20.5, 64.0], "short_factor": [1.0, 1.25, 2.0, 2.5],
                            "type": "longrope"},
              sliding_window=2048, tie_word_embeddings=False, torch_dtype="float32"),
        seed=54,
        matters=({"rope_scaling": None}, {"original_max_position_embeddings": 8},
                 {"rope_scaling.attention_factor": 1.0}),
    ),
    Variant(
        # The first name of longrope; short samples, long ones, and one as long as the limit. The length inside
        # rope_scaling is not in the field's files; transformers 5 refuses "su" without it, and then overrides it.
        "phi3-su",
        _phi3(vocab_size=65, hidden_size=32, intermediate_size=20, num_attention_heads=4, num_key_value_heads=4,
              max_position_embeddings=128, original_max_position_embeddings=13, rope_theta=10000.0,
              rope_scaling={"long_factor": [1.5, 4.25, 20.5, 64.0], "short_factor": [1.0, 1.25, 2.0, 2.5],
                            "original_max_position_embeddings": 99, "type": "su"},
              sliding_window=None, tie_word_embeddings=False, torch_dtype="bfloat16"),
        dtype="BF16",
        seed=55,
        matters=({"original_max_position_embeddings": 12}, {"original_max_position_embeddings": 20}),
    ),
    Variant(
        "phi4-mini",  # three quarters of a head are rotated; grouped queries; tied; all samples are long
        _phi3(vocab_size=68, hidden_size=32, intermediate_size=28, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=256, original_max_position_embeddings=8, rope_theta=10000.0,
              partial_rotary_factor=0.75, full_attn_mod=1, interpolate_factor=1, lm_head_bias=False, mlp_bias=False,
              rope_scaling={"long_factor": [1.0, 3.5, 12.25], "short_factor": [1.0, 1.0, 1.0], "type": "longrope"},
              sliding_window=512, tie_word_embeddings=True, torch_dtype="float32"),
        seed=56,
        steps=("sgd",),
        matters=({"original_max_position_embeddings": 64}, {"rope_scaling": None}),
    ),
    Variant(
        "phi4-mini-v5",  # the same family as transformers 5 writes it: all in rope_parameters
        _phi3(vocab_size=68, hidden_size=24, intermediate_size=20, num_attention_heads=3, num_key_value_heads=1,
              max_position_embeddings=256, original_max_position_embeddings=16,
              rope_parameters={"long_factor": [1.0, 3.5, 12.25], "short_factor": [1.0, 1.25, 1.5],
                               "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
                               "original_max_position_embeddings": 16, "attention_factor": 1.2},
              sliding_window=None, tie_word_embeddings=True, dtype="float32"),
        seed=57,
        matters=({"rope_parameters.attention_factor": None},),
    ),
]
