// How the files of a model's folder are named by transformers and peft.
#pragma once

namespace ftune {

inline constexpr char kModelConfigFile[] = "config.json";
inline constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
inline constexpr char kAdapterConfigFile[] = "adapter_config.json";
inline constexpr char kAdapterWeightsFile[] = "adapter_model.safetensors";
inline constexpr char kWeightsFile[] = "model.safetensors";  // of weights in one file
inline constexpr char kWeightsIndexFile[] = "model.safetensors.index.json";

}  // namespace ftune
