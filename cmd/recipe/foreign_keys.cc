#include "cmd/recipe/foreign_keys.h"

#include "base/strings.h"

namespace ftune {
namespace {

struct ForeignKey {
  std::string_view word;
  std::string_view instead;
};

// Keys of Axolotl, LLaMA-Factory, torchtune, TRL and Hugging Face's TrainingArguments whose name does not
// lead to ours.
constexpr ForeignKey kForeignKeys[] = {
    {"datasets", "write data.train"},
    {"dataset", "write data.train"},
    {"test_datasets", "write data.eval"},
    {"eval_dataset", "write data.eval"},
    {"dataset_val", "write data.eval"},
    {"val_size", "write data.val_set_size"},
    {"template", "write data.chat_template"},
    {"max_seq_len", "write data.sequence_len"},
    {"max_seq_length", "write data.sequence_len"},
    {"sample_packing", "write data.packing"},
    {"neat_packing", "write data.packing; its samples never see each other"},
    {"train_on_prompt", "write data.train_on_inputs"},
    {"mask_history", "write data.train_on_turns: last"},
    {"finetuning_type", "write adapter.kind, or no adapter section for full fine-tuning"},
    {"load_in_4bit", "write adapter.quantize: nf4"},
    {"load_in_8bit", "write adapter.quantize: int8"},
    {"quantization_bit", "write adapter.quantize: nf4 or int8"},
    {"lora_target_modules", "write adapter.target_modules"},
    {"lora_target_linear", "write adapter.target_modules: all-linear"},
    {"lora_modules_to_save", "write adapter.modules_to_save"},
    {"additional_target", "write adapter.modules_to_save"},
    {"peft_use_dora", "write adapter.use_dora"},
    {"peft_use_rslora", "write adapter.use_rslora"},
    {"epochs", "write train.num_epochs"},
    {"grad_accum", "write train.gradient_accumulation_steps"},
    {"lr", "write optimizer.learning_rate"},
    {"lr_scheduler_kwargs", "write optimizer.min_lr_ratio"},
    {"cosine_min_lr_ratio", "write optimizer.min_lr_ratio"},
    {"num_warmup_steps", "write optimizer.warmup_steps"},
    {"clip_grad_norm", "write optimizer.max_grad_norm"},
    {"gradient_clipping", "write optimizer.max_grad_norm"},
    {"bf16", "write precision.weights: bf16"},
    {"fp16", "write precision.weights: fp16"},
    {"pure_bf16", "write precision.weights: bf16"},
    {"dtype", "write precision.weights"},
    {"torch_dtype", "write precision.weights"},
    {"deepspeed", "write parallel.zero and memory.offload"},
    {"fsdp", "write parallel.zero: 3"},
    {"fsdp_config", "write parallel.zero: 3"},
    {"tensor_parallel_size", "write parallel.tensor"},
    {"tensor_parallel_dim", "write parallel.tensor"},
    {"context_parallel_size", "write parallel.context"},
    {"sequence_parallel_degree", "write parallel.context"},
    {"pipeline_parallel_size", "write parallel.pipeline"},
    {"dp_replicate_size", "write parallel.data"},
    {"dp_shard_size", "write parallel.data and parallel.zero: 3"},
    {"noisy_embedding_alpha", "write train.neftune_noise_alpha"},
    {"eval_strategy", "write train.eval_steps or train.evals_per_epoch"},
    {"evaluation_strategy", "write train.eval_steps or train.evals_per_epoch"},
    {"save_strategy", "write checkpoint.save_steps or checkpoint.saves_per_epoch"},
    {"report_to", "write log.tensorboard or log.hook"},
    {"use_tensorboard", "write log.tensorboard"},
    {"wandb_project", "write log.hook: a command that is fed the log's lines"},
    {"local_rank", "remove it: launch starts the ranks"},
    {"stage", "remove it: ftune trains on demonstrations (supervised fine-tuning)"},
    {"do_train", "remove it and run `ftune train`"},
    {"resume_from_checkpoint", "remove it and run `ftune resume RUN`"},
    {"flash_attention", "remove it: attention is always tiled"},
    {"attn_implementation", "remove it: attention is always tiled"},
    {"trust_remote_code", "remove it: ftune runs no code of a model"},
};

}  // namespace

std::optional<std::string> ForeignKeyHint(std::string_view word) {
  const std::string lower = Lower(word);
  for (const ForeignKey& key : kForeignKeys) {
    if (key.word == lower) return std::string(key.instead);
  }
  return std::nullopt;
}

}  // namespace ftune
