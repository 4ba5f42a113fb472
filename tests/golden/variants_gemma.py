"""Gemma 1, 2 and 3: norms by 1 + w, scaled embeddings, soft caps, and layers with rotary settings of their own.

The caps and the local base are smaller than in the field: models as small as these would not reach them.
"""

from variant import Variant


def _gemma(model_type, architecture, **fields):
    return {
        "architectures": [architecture],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "initializer_range": 0.02,
        "model_type": model_type,
        "pad_token_id": 64,
        "rms_norm_eps": 1e-06,
        "use_cache": True,
        **fields,
    }


def _gemma3(**fields):
    return _gemma("gemma3_text", "Gemma3ForCausalLM", attn_logit_softcapping=None, final_logit_softcapping=None,
                  hidden_activation="gelu_pytorch_tanh", max_position_embeddings=128, **fields)


def _gemma3_wrapper():
    """As Gemma 3 4B: what has a default is left out of text_config. The vision tower is in no file here."""
    return {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "boi_token_index": 65,
        "eoi_token_index": 66,
        "eos_token_id": [1, 6],
        "image_token_index": 67,
        "initializer_range": 0.02,
        "mm_tokens_per_image": 4,
        "model_type": "gemma3",
        "text_config": {
            "head_dim": 8, "hidden_size": 24, "intermediate_size": 20, "model_type": "gemma3_text",
            "num_attention_heads": 3, "num_hidden_layers": 2, "num_key_value_heads": 1, "pad_token_id": 64,
            "query_pre_attn_scalar": 6, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "sliding_window": 6, "sliding_window_pattern": 2, "vocab_size": 68,
        },
        "torch_dtype": "bfloat16",
        "transformers_version": "4.50.0.dev0",
        "vision_config": {
            "hidden_size": 8, "image_size": 8, "intermediate_size": 8, "model_type": "siglip_vision_model",
            "num_attention_heads": 2, "num_hidden_layers": 1, "patch_size": 4, "vision_use_head": False,
        },
    }


GEMMA = [
    Variant(
        "gemma",  # head_dim that is not hidden ÷ heads; tied by default; old dialect
        _gemma("gemma", "GemmaForCausalLM",
               vocab_size=66, hidden_size=32, intermediate_size=28, num_hidden_layers=2,
               num_attention_heads=2, num_key_value_heads=1, head_dim=14, max_position_embeddings=128,
               hidden_act="gelu_pytorch_tanh", hidden_activation=None, rope_scaling=None, rope_theta=10000.0,
               torch_dtype="float32"),
        seed=61,
        matters=("embedding_scale", "one_plus_w", {"hidden_act": "silu"}),
    ),
    Variant(
        "gemma-legacy",  # "gelu" in the oldest files means its approximation; biases; new dialect
        _gemma("gemma", "GemmaForCausalLM",
               vocab_size=67, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
               num_attention_heads=3, num_key_value_heads=3, head_dim=8, max_position_embeddings=128,
               hidden_act="gelu", rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
               tie_word_embeddings=True, dtype="bfloat16") | {"attention_bias": True},
        dtype="BF16",
        seed=62,
        matters=("embedding_scale", "one_plus_w"),
    ),
    Variant(
        "gemma2",  # soft caps, norms after both blocks, every other layer with a window; old dialect
        _gemma("gemma2", "Gemma2ForCausalLM",
               vocab_size=66, hidden_size=32, intermediate_size=28, num_hidden_layers=3,
               num_attention_heads=4, num_key_value_heads=2, head_dim=10, max_position_embeddings=128,
               attn_logit_softcapping=1.5, final_logit_softcapping=2.5, cache_implementation="hybrid",
               hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=6,
               rope_theta=10000.0, sliding_window=7, torch_dtype="float32"),
        seed=63,
        matters=("embedding_scale", "one_plus_w", "post_norms", {"attn_logit_softcapping": ...},
                 {"final_logit_softcapping": ...}, {"query_pre_attn_scalar": 10}, {"sliding_window": 8},
                 {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
    ),
    Variant(
        "gemma2-v5",  # one cap only, types of the layers listed; untied; new dialect
        _gemma("gemma2", "Gemma2ForCausalLM",
               vocab_size=65, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
               num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=128,
               attn_logit_softcapping=None, final_logit_softcapping=3.0, hidden_activation="gelu_pytorch_tanh",
               layer_types=["full_attention", "sliding_attention"], query_pre_attn_scalar=12,
               rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, sliding_window=5,
               tie_word_embeddings=False, use_bidirectional_attention=None, dtype="float32"),
        seed=64,
        matters=({"final_logit_softcapping": ...}, {"attn_logit_softcapping": 1.5}, {"layer_types": None}),
    ),
    Variant(
        "gemma3",  # Gemma 3 1B: q and k norms, every third layer is global with its own base; old dialect
        _gemma3(vocab_size=68, hidden_size=24, intermediate_size=20, num_hidden_layers=4,
                num_attention_heads=4, num_key_value_heads=1, head_dim=10, cache_implementation="hybrid",
                query_pre_attn_scalar=6, rope_local_base_freq=100, rope_scaling=None, rope_theta=1000000,
                sliding_window=7, sliding_window_pattern=3, torch_dtype="bfloat16", eos_token_id=[1, 6]),
        dtype="BF16",
        seed=65,
        steps=("sgd",),
        matters=("embedding_scale", "one_plus_w", "post_norms", "qk_norm", {"query_pre_attn_scalar": 10},
                 {"rope_theta": 100}, {"rope_local_base_freq": 10000}, {"sliding_window_pattern": 2},
                 {"sliding_window": 8}),
    ),
    Variant(
        "gemma3-scaled",  # as 4B and larger: global positions ÷ 8, local ones not; new dialect
        _gemma3(vocab_size=66, hidden_size=28, intermediate_size=20, num_hidden_layers=2,
                num_attention_heads=2, num_key_value_heads=2, head_dim=12,
                layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=14,
                rope_parameters={
                    "full_attention": {"factor": 8.0, "rope_theta": 1000000.0, "rope_type": "linear"},
                    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
                },
                sliding_window=9, use_bidirectional_attention=False, tie_word_embeddings=True, dtype="float32"),
        seed=66,
        matters=({"rope_parameters.full_attention.factor": 1.0},
                 {"rope_parameters.sliding_attention.rope_theta": 100.0},
                 {"rope_parameters.full_attention.rope_theta": 100.0}, {"layer_types": None}),
    ),
    Variant(
        "gemma3-wrapper",  # the multimodal model's config and names, its text only
        _gemma3_wrapper(),
        dtype="BF16",
        seed=67,
        names="gemma3_wrapper",
        # peft's "all-linear" would take the vision tower too.
        targets=r"model\.language_model\.layers\.\d+\.(self_attn|mlp)\.[a-z]+_proj",
        matters=("qk_norm", {"text_config.rope_scaling": None}, {"text_config.sliding_window": 7}),
    ),
]
