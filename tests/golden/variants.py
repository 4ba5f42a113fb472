"""The tiny random models: one for each family variant that ftune reads.

Each `config` is written to config.json word for word, with the keys that such models have in the field. Old and new
dialect of its keys are both there. Dimensions are odd on purpose: no vector width divides them all.
"""

from variant import Variant, hf_config
from variants_gemma import GEMMA
from variants_gpt2_phi3 import GPT2_PHI3
from variants_qwen3_smollm3 import QWEN3_SMOLLM3
from variants_rope import ROPE

VARIANTS = [
    Variant(
        "llama",  # untied, grouped queries, sharded; old dialect
        hf_config(
            "llama", "LlamaForCausalLM",
            vocab_size=65, hidden_size=32, intermediate_size=36, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
            rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling=None,
            tie_word_embeddings=False, torch_dtype="float32",
        ),
        shards=3,
        generation_config={"bos_token_id": 1, "eos_token_id": [2, 5], "do_sample": False},
        seed=11,
        steps=("adamw", "sgd"),
    ),
    Variant(
        "llama3",  # llama3 rotary scaling; old dialect; tied, as Llama 3.2 is
        hf_config(
            "llama", "LlamaForCausalLM",
            vocab_size=69, hidden_size=32, intermediate_size=28, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=512,
            rms_norm_eps=1e-5, rope_theta=10000.0,
            # Wavelengths 6, 20, 63, 199 …: below, between and above the limits 16 and 64.
            rope_scaling={
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            tie_word_embeddings=True, torch_dtype="float32", eos_token_id=[2, 4],
        ),
        seed=12,
        steps=("adamw", "sgd"),
    ),
    Variant(
        "llama-linear",  # linear rotary scaling under its oldest name; biases everywhere; stored as F16
        hf_config(
            "llama", "LlamaForCausalLM",
            vocab_size=64, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256,
            rms_norm_eps=1e-6, rope_theta=5000.0, rope_scaling={"type": "linear", "factor": 2.5},
            attention_bias=True, mlp_bias=True, tie_word_embeddings=False, torch_dtype="float16",
        ),
        dtype="F16",
        seed=13,
        steps=("adamw", "sgd"),
    ),
    Variant(
        "smollm2",  # tied, nine heads on three; new dialect
        hf_config(
            "llama", "LlamaForCausalLM",
            vocab_size=71, hidden_size=36, intermediate_size=28, num_hidden_layers=2,
            num_attention_heads=9, num_key_value_heads=3, head_dim=4, max_position_embeddings=128,
            rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
            attention_bias=False, mlp_bias=False, tie_word_embeddings=True, dtype="float32",
        ),
        seed=14,
        steps=("adamw", "sgd"),
    ),
    Variant(
        "mistral",  # a window shorter than the samples; head_dim that is not hidden ÷ heads; new dialect
        hf_config(
            "mistral", "MistralForCausalLM",
            vocab_size=67, hidden_size=28, intermediate_size=30, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=10, max_position_embeddings=128,
            rms_norm_eps=1e-5, sliding_window=7,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            tie_word_embeddings=False, dtype="float32",
        ),
        seed=15,
        matters=({"sliding_window": None},),
        steps=("adamw", "sgd"),
    ),
    Variant(
        "qwen2",  # biases that the config does not mention; a window that is off; tied; stored as BF16
        hf_config(
            "qwen2", "Qwen2ForCausalLM",
            vocab_size=66, hidden_size=40, intermediate_size=20, num_hidden_layers=2,
            num_attention_heads=5, num_key_value_heads=1, max_position_embeddings=128,
            rms_norm_eps=1e-6, rope_theta=1000000.0,
            use_sliding_window=False, sliding_window=4, max_window_layers=1,
            tie_word_embeddings=True, torch_dtype="bfloat16",
        ),
        dtype="BF16",
        seed=16,
        steps=("adamw", "sgd"),
    ),
    Variant(
        "qwen2-window",  # the second layer has a window, the first has not; untied; new dialect
        hf_config(
            "qwen2", "Qwen2ForCausalLM",
            vocab_size=64, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
            num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=128,
            rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            use_sliding_window=True, sliding_window=5, max_window_layers=1,
            tie_word_embeddings=False, dtype="float32",
        ),
        seed=17,
        matters=({"use_sliding_window": False},),
    ),
]

VARIANTS += ROPE + QWEN3_SMOLLM3 + GPT2_PHI3 + GEMMA
