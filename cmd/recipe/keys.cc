// Every key of a recipe: its name, type, aliases and meaning. Its default is the member's initial value in
// recipe.h.
#include "base/folder.h"
#include "base/hub/repo.h"
#include "base/strings.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/mapping_types.h"
#include "data/template/builtin_templates.h"
#include "data/template/chat_template.h"
#include "data/template/load_chat_template.h"

namespace ftune {
namespace {

constexpr int64_t kLargestBatch = 1000000000;
constexpr int64_t kLongestSequence = 100000000;

// Of a section, and of the keys in it that differ.
constexpr OnResume kFree = OnResume::kFree;
constexpr OnResume kFixed = OnResume::kFixed;

Type<std::string> Path(PathUse use) {
  return PathType(TextType("a path"), [use](const std::string&) { return use; });
}
// What is on this disk goes before a repository of the same name.
Type<std::string> PathOrHubId(RepoKind kind) {
  return PathType(TextType("a path"), [kind](const std::string& text) {
    const bool here = text != "-" && (Exists(text) || !ParseHubPath(text, kind));
    return here ? PathUse::kInput : PathUse::kNone;
  });
}
Type<int64_t> Ranks() { return IntType(1, kMostRanks); }
Type<int64_t> BatchSize() { return IntType(1, kLargestBatch); }

template <class S>
KeyTable::Place<S> Member(S Recipe::*member) {
  return {[member](const Recipe& recipe) { return &(recipe.*member); },
          [member](Recipe& recipe) -> S& { return recipe.*member; }};
}

void AddTop(KeyTable& table) {
  table.AddSection<Recipe>(
      "", "", "", kFree,
      {[](const Recipe& recipe) { return &recipe; }, [](Recipe& recipe) -> Recipe& { return recipe; }},
      // No path that goes with the run: a run's folder is where it is.
      {MakeField("output_dir", &Recipe::output_dir, AutoOr(TextType("a path")),
                 "Where the run is written. auto: runs/ and the recipe file's name.")});
}

void AddModel(KeyTable& table) {
  using S = ModelSection;
  table.AddSection<S>(
      "model", "The model to fine-tune.", "path", kFixed, Member(&Recipe::model),
      {MakeField("path", &S::path, PathOrHubId(RepoKind::kModel),
                 "A Hugging Face directory, a .gguf file, a hub id; a config.json is enough to plan.",
                 {"model_name_or_path", "base_model"}),
       MakeField(
           "revision", &S::revision, NullOr(TextType("a branch, a tag or a commit")),
           "Of a hub id: which version of it. null: main, as it was when it was downloaded; a run's own "
           "recipe names the commit.",
           {"model_revision"}),
       MakeField("init_from", &S::init_from, NullOr(PathOrHubId(RepoKind::kModel)),
                 "A checkpoint to start from: its weights only."),
       MakeField(
           "added_tokens", &S::added_tokens, ListOf(TextType("a token"), "a list of tokens"),
           "New special tokens. Embedding and head grow by a row for each, the mean of the old rows, and are "
           "trained and saved, with an adapter too.")});

  table.SetRequired("model.path");

  using R = RopeScaling;
  table.AddSection<R>(
      "model.rope_scaling",
      "Scaling of the rotary position frequencies. Absent: as in the model's config.json.", "rope_type",
      kFixed,
      {[](const Recipe& recipe) { return recipe.model.rope_scaling ? &*recipe.model.rope_scaling : nullptr; },
       [](Recipe& recipe) -> R& {
         if (!recipe.model.rope_scaling) recipe.model.rope_scaling.emplace();
         return *recipe.model.rope_scaling;
       },
       [](Recipe& recipe) { recipe.model.rope_scaling.reset(); }},
      {MakeField("rope_type", &R::rope_type,
                 OneOf<RopeType>({{{"default"}, RopeType::kDefault},
                                  {{"linear"}, RopeType::kLinear},
                                  {{"dynamic"}, RopeType::kDynamic},
                                  {{"yarn"}, RopeType::kYarn},
                                  {{"longrope", {"su"}}, RopeType::kLongRope},
                                  {{"llama3"}, RopeType::kLlama3}}),
                 "How the frequencies are scaled.", {"type"}),
       MakeField("factor", &R::factor, NumberType({.min = 1, .max = 1e6}),
                 "How many times longer the context becomes."),
       MakeField("low_freq_factor", &R::low_freq_factor, NumberType({.above = 0}),
                 "llama3: its low_freq_factor."),
       MakeField("high_freq_factor", &R::high_freq_factor, NumberType({.above = 0}),
                 "llama3: its high_freq_factor."),
       MakeField("original_max_position_embeddings", &R::original_max_position_embeddings,
                 NullOr(IntType(1, kLongestSequence)),
                 "llama3: the context the model was first trained with.")});
}

void AddAdapter(KeyTable& table) {
  using S = AdapterSection;
  table.AddSection<S>(
      "adapter", "An adapter on a frozen model. Section absent: full fine-tuning.", "kind", kFixed,
      {[](const Recipe& recipe) { return recipe.adapter ? &*recipe.adapter : nullptr; },
       [](Recipe& recipe) -> S& {
         if (!recipe.adapter) recipe.adapter.emplace();
         return *recipe.adapter;
       },
       [](Recipe& recipe) { recipe.adapter.reset(); }},
      {MakeField("kind", &S::kind,
                 OneOf<AdapterKind>({{{"lora"}, AdapterKind::kLora}, {{"qlora"}, AdapterKind::kQlora}}),
                 "The adapter. qlora is lora with quantize: nf4."),
       MakeField("quantize", &S::quantize,
                 AutoOr(OneOf<Quantization>({{{"none"}, Quantization::kNone},
                                             {{"nf4"}, Quantization::kNf4},
                                             {{"fp4"}, Quantization::kFp4},
                                             {{"int8"}, Quantization::kInt8}})),
                 "Form of the frozen weights. auto: nf4 with kind qlora, else none."),
       MakeField("lora_r", &S::lora_r, IntType(1, 65536), "Rank of the update.", {"lora_rank", "r"}),
       MakeField("lora_alpha", &S::lora_alpha, AutoOr(NumberType({.above = 0})),
                 "The update is scaled by lora_alpha / lora_r. auto: 2 × lora_r."),
       MakeField("lora_dropout", &S::lora_dropout, NumberType({.min = 0, .below = 1}),
                 "Share of the adapter's inputs that is dropped.")
           .Resumed(kFree),
       MakeField("target_modules", &S::target_modules, TargetModulesType(),
                 "The layers that get an adapter: all linear ones but the head, by the end of their names "
                 "(embed_tokens and lm_head too), or by a regular expression on the whole name.",
                 {"lora_target"}),
       MakeField("rank_pattern", &S::rank_pattern,
                 MapOf(IntType(1, 65536), "a map of regular expressions and ranks"),
                 "lora_r of single layers, by a regular expression of the end of their names: "
                 "{q_proj: 8, 'layers\\.0\\..*': 4}. The first that matches counts."),
       MakeField("alpha_pattern", &S::alpha_pattern,
                 MapOf(NumberType({.above = 0}), "a map of regular expressions and numbers"),
                 "lora_alpha of single layers, in the same way."),
       MakeField("modules_to_save", &S::modules_to_save,
                 ListOf(TextType("a module name"), "a list of module names"),
                 "Modules trained in full beside the adapter and saved with it, by the end of their names: "
                 "embed_tokens, lm_head, norm."),
       MakeField("use_rslora", &S::use_rslora, BoolType(), "Scale by lora_alpha / √lora_r instead."),
       MakeField("use_dora", &S::use_dora, BoolType(),
                 "Train the weights' magnitudes apart from their directions."),
       MakeField("loraplus_lr_ratio", &S::loraplus_lr_ratio, NullOr(NumberType({.above = 0})),
                 "LoRA+: learning rate of B over that of A.")
           .Resumed(kFree),
       MakeField("loraplus_lr_embedding", &S::loraplus_lr_embedding, AutoOr(NumberType({.min = 0})),
                 "LoRA+: learning rate of an adapter on the embedding. auto: 1e-6.")
           .Resumed(kFree)});
}

Type<std::vector<DataSource>> DataSources(size_t min_items) {
  using S = DataSource;
  return ListOf(
      RecordOf<S>(
          {MakeField(
               "path", &S::path, PathOrHubId(RepoKind::kDataset),
               "A file, a folder, a pattern (data/*.jsonl), - for standard input, or a hub id: org/name."),
           MakeField("name", &S::name, NullOr(TextType("a subset")),
                     "Of a hub id: its subset. null: the only or default one."),
           MakeField("split", &S::split, NullOr(TextType("a split")),
                     "Of a hub id: its split. null: train in data.train, the only one in data.eval."),
           MakeField("revision", &S::revision, NullOr(TextType("a branch, a tag or a commit")),
                     "Of a hub id: which version of it, as in model.revision."),
           MakeField("format", &S::format,
                     AutoOr(OneOf<DataFormat>({{{"messages"}, DataFormat::kMessages},
                                               {{"sharegpt"}, DataFormat::kShareGpt},
                                               {{"alpaca"}, DataFormat::kAlpaca},
                                               {{"prompt_completion"}, DataFormat::kPromptCompletion},
                                               {{"text"}, DataFormat::kText},
                                               {{"tokens"}, DataFormat::kTokens},
                                               {{"segments"}, DataFormat::kSegments}})),
                     "What a record looks like. auto: text for .txt files, else told from the first one."),
           MakeField("weight", &S::weight, NumberType({.min = 0, .max = 1000}),
                     "How often an epoch takes each of its samples, on average; not for evaluation."),
           MakeField("epochs", &S::epochs, NullOr(NumberType({.above = 0, .max = 1e6})),
                     "How often the whole run takes each of its samples at most, whatever train.num_epochs; "
                     "not for evaluation."),
           MakeField("max_samples", &S::max_samples, NullOr(IntType(1)),
                     "At most so many of its samples: a random subset, by the rows' hashes, that stays the "
                     "same for ever. What val_set_size takes comes out of it."),
           MakeField("columns", &S::columns, ColumnsType(),
                     "What the dataset calls its columns and the keys of its messages, by our names: "
                     "{messages: chat, role: speaker}."),
           MakeField("roles", &S::roles, RolesType(),
                     "What the dataset's roles are for us: {bot: assistant}. A role given its own name again "
                     "goes to the chat template as it is.")},
          "a path, or a map of path, format and weight"),
      "a list of paths, or of maps of path, format and weight",
      {.one_is_enough = true, .min_items = min_items});
}

void AddData(KeyTable& table) {
  using S = DataSection;
  table.AddSection<S>(
      "data", "What the model learns from.", "train", kFixed, Member(&Recipe::data),
      {MakeField("train", &S::train, DataSources(1), "Training data. A path alone is short for [{path: …}]."),
       MakeField("eval", &S::eval, DataSources(0), "Evaluation data, of the same shape.").Resumed(kFree),
       MakeField("val_set_size", &S::val_set_size, CountOrShareType(),
                 "Taken from the training data for evaluation: a share (< 1) or a count."),
       MakeField("chat_template", &S::chat_template,
                 AutoOr(PathType(TextType("a template's name or file, or Jinja text"),
                                 [](const std::string& text) {
                                   return IsTemplateFile(text) ? PathUse::kInput : PathUse::kNone;
                                 })),
                 StrCat("One of ", BuiltinTemplateNames(),
                        "; or a Jinja file; or Jinja text itself. auto: the tokenizer's own.")),
       MakeField("chat_template_kwargs", &S::chat_template_kwargs, VariablesType(IsConversationVariable),
                 "Variables for the chat template, such as enable_thinking; a row's own "
                 "chat_template_kwargs go before them."),
       MakeField("split_turns", &S::split_turns, AutoOr(BoolType()),
                 "Make a sample of each learned turn of a conversation, which ends with it. auto: of turns "
                 "that the template writes otherwise once the conversation goes on; false: refuse such "
                 "rows."),
       MakeField(
           "train_on_inputs", &S::train_on_inputs, BoolType(),
           "Learn the prompts too, not only the assistant's turns: each conversation as a whole, as the "
           "template writes it."),
       MakeField("train_on_turns", &S::train_on_turns,
                 OneOf<TrainedTurns>({{{"all"}, TrainedTurns::kAll}, {{"last"}, TrainedTurns::kLast}}),
                 "Which of the assistant's turns are learned."),
       MakeField("roles_to_train", &S::roles_to_train,
                 ListOf(TextType("a role"), "a list of roles", {.one_is_enough = true, .min_items = 1}),
                 "The roles whose turns are learned."),
       MakeField("sequence_len", &S::sequence_len, IntType(2, kLongestSequence),
                 "Tokens of a pack, or of a row where packing is off; capped by the model's context.",
                 {"max_length", "cutoff_len"}),
       MakeField("excess_length_strategy", &S::excess_length_strategy,
                 AutoOr(OneOf<ExcessLength>({{{"truncate"}, ExcessLength::kTruncate},
                                             {{"split"}, ExcessLength::kSplit},
                                             {{"drop"}, ExcessLength::kDrop},
                                             {{"error"}, ExcessLength::kError}})),
                 "What becomes of longer samples. auto: text is split, the rest dropped (and counted)."),
       MakeField("truncation_side", &S::truncation_side,
                 OneOf<TruncatedSide>({{{"right"}, TruncatedSide::kRight}, {{"left"}, TruncatedSide::kLeft}}),
                 "The end of a sample that truncate cuts off; on the left, a BOS stays."),
       MakeField("packing", &S::packing, BoolType(),
                 "Fill each row with several samples, which never see each other."),
       MakeField("group_by_length", &S::group_by_length, BoolType(),
                 "Without packing: let samples of similar length share a batch."),
       MakeField("mix", &S::mix,
                 OneOf<DataMix>({{{"concat"}, DataMix::kConcat}, {{"interleave"}, DataMix::kInterleave}}),
                 "How several datasets become one. concat: all samples of an epoch in one pool, shuffled. "
                 "interleave: they take turns, so that each has its share at every point of an epoch."),
       MakeField(
           "streaming", &S::streaming, BoolType(),
           "Read while training, for data without an end: a window of rows at a time, shuffled and "
           "packed. Wants train.max_steps. Data that can be read again starts anew at its end; - is standard "
           "input, read as it comes."),
       MakeField(
           "streaming_window", &S::streaming_window, IntType(1, kLargestBatch),
           "Samples that streaming shuffles and packs at a time, at least: those that it holds in memory.",
           {"buffer_size"}),
       MakeField("on_bad_row", &S::on_bad_row,
                 OneOf<OnBadRow>({{{"error"}, OnBadRow::kError}, {{"skip"}, OnBadRow::kSkip}}),
                 "What a row that cannot be read does: stop, or be left out (counted and listed)."),
       MakeField("prepared_path", &S::prepared_path, AutoOr(Path(PathUse::kOutput)),
                 "Where tokenised data is kept for the next run. auto: $XDG_CACHE_HOME/ftune/tokens, "
                 "~/.cache/ftune/tokens.",
                 {"dataset_prepared_path"})
           .Resumed(kFree)});
  table.SetRequired("data.train");

  const auto audit = [](const char* name, double AuditSection::*member, const char* doc) {
    return MakeField(name, member, NumberType({.min = 0, .max = 1}), doc);
  };
  table.AddSection<AuditSection>(
      "data.audit", "What is found in the data before training; beyond these shares the run stops.",
      "max_untrained_samples", kFree,
      {[](const Recipe& recipe) { return &recipe.data.audit; },
       [](Recipe& recipe) -> AuditSection& { return recipe.data.audit; }, nullptr},
      {audit("max_dropped_rows", &AuditSection::max_dropped_rows,
             "Rows of which nothing is left: that cannot be read, are too long or teach nothing."),
       audit("max_untrained_samples", &AuditSection::max_untrained_samples,
             "Samples of which nothing is learned."),
       audit("max_doubled_bos", &AuditSection::max_doubled_bos, "Samples that begin with more than one BOS."),
       audit("max_open_turns", &AuditSection::max_open_turns,
             "Learned turns that do not end with a token that generation stops on."),
       audit("min_trained_tokens", &AuditSection::min_trained_tokens, "Tokens that are learned, at least.")});
}

void AddTrain(KeyTable& table) {
  using S = TrainSection;
  table.AddSection<S>(
      "train", "Batches, length and evaluation.", "num_epochs", kFree, Member(&Recipe::train),
      {MakeField("global_batch_size", &S::global_batch_size, AutoOr(BatchSize()),
                 "Packs (rows where packing is off) per optimizer step, over all ranks. auto: 16, or what "
                 "micro_batch_size and gradient_accumulation_steps give where both are set.",
                 {"batch_size"})
           .Resumed(kFixed),
       MakeField("micro_batch_size", &S::micro_batch_size, AutoOr(BatchSize()),
                 "Packs that a rank computes at a time. auto: 1, or what the other two sizes give.",
                 {"per_device_train_batch_size"}),
       MakeField("gradient_accumulation_steps", &S::gradient_accumulation_steps, AutoOr(BatchSize()),
                 "Microbatches per optimizer step. auto: what the other two sizes give."),
       MakeField("num_epochs", &S::num_epochs, NumberType({.above = 0, .max = 1e6}),
                 "Times through the data; may be a fraction.", {"num_train_epochs"}),
       MakeField("max_steps", &S::max_steps, NullOr(IntType(1)),
                 "At most so many optimizer steps; this or num_epochs, whichever comes first."),
       MakeField("eval_steps", &S::eval_steps, NullOr(IntType(1)), "Evaluate every so many steps."),
       MakeField(
           "evals_per_epoch", &S::evals_per_epoch, NullOr(NumberType({.above = 0, .max = 1e6})),
           "Evaluate so often per epoch; 1 where there is evaluation data and eval_steps is not given."),
       MakeField("eval_on_start", &S::eval_on_start, BoolType(), "Evaluate before the first step too."),
       MakeField(
           "early_stopping_patience", &S::early_stopping_patience, NullOr(IntType(1)),
           "Stop after so many evaluations in a row that are not the best so far, and keep the weights of "
           "the best one."),
       MakeField(
           "sample_prompts", &S::sample_prompts, ListOf(TextType("a prompt"), "a list of prompts"),
           "A user's messages (plain text where there is no chat template) to answer at each evaluation."),
       MakeField("sample_max_new_tokens", &S::sample_max_new_tokens, IntType(1, kLongestSequence),
                 "Longest answer to a sample prompt, in tokens.", {"generation_max_new_tokens"}),
       MakeField("freeze", &S::freeze,
                 ListOf(TextType("a regular expression"), "a list of regular expressions"),
                 "Parameters that stay as they are: regular expressions that match any part of their names.")
           .Resumed(kFixed),
       MakeField("neftune_noise_alpha", &S::neftune_noise_alpha, NullOr(NumberType({.min = 0})),
                 "NEFTune: strength of the noise on the embeddings."),
       MakeField("label_smoothing", &S::label_smoothing, NumberType({.min = 0, .below = 1}),
                 "Share of each target that is spread over the whole vocabulary.",
                 {"label_smoothing_factor"}),
       MakeField("seed", &S::seed, IntType(0),
                 "All randomness follows from it: data order, dropout, initialisation.")
           .Resumed(kFixed)});
}

void AddOptimizer(KeyTable& table) {
  using S = OptimizerSection;
  table.AddSection<S>(
      "optimizer", "How the weights move.", "name", kFree, Member(&Recipe::optimizer),
      {MakeField("name", &S::name,
                 OneOf<OptimizerName>(
                     {{{"adamw", {"adamw_torch", "adamw_torch_fused", "adamw_hf"}}, OptimizerName::kAdamW},
                      {{"sgd"}, OptimizerName::kSgd},
                      {{"lion", {"lion_32bit"}}, OptimizerName::kLion},
                      {{"adafactor"}, OptimizerName::kAdafactor},
                      {{"muon"}, OptimizerName::kMuon},
                      {{"adamw_8bit", {"adamw_bnb_8bit"}}, OptimizerName::kAdamW8bit}}),
                 "The optimizer. muon is for the matrices of the layers, with adamw for the rest; adamw_8bit "
                 "keeps its moments in 8 bits.",
                 {"optim"})
           .Resumed(kFixed),
       MakeField(
           "learning_rate", &S::learning_rate, AutoOr(NumberType({.min = 0})),
           "At its highest. auto: 2e-4 with an adapter, 2e-5 without, which suits adamw, adamw_8bit and "
           "muon; lion wants a smaller one, sgd and adafactor (whose steps are relative to the weights' "
           "size) one "
           "of 1e-3 and more."),
       MakeField("beta1", &S::beta1, AutoOr(NumberType({.min = 0, .below = 1})),
                 "AdamW: decay of the first moment; Lion: of the momentum in an update. auto: 0.9.",
                 {"adam_beta1"}),
       MakeField("beta2", &S::beta2, AutoOr(NumberType({.min = 0, .below = 1})),
                 "AdamW: decay of the second moment; Lion: of the momentum. auto: 0.999, for lion 0.99.",
                 {"adam_beta2"}),
       MakeField("eps", &S::eps, AutoOr(NumberType({.above = 0})),
                 "AdamW: added to the denominator. auto: 1e-8.", {"adam_epsilon"}),
       MakeField("momentum", &S::momentum, AutoOr(NumberType({.min = 0, .below = 1})),
                 "SGD and Muon: decay of the momentum. auto: 0, for muon 0.95.")
           .Resumed(kFixed),
       MakeField("adjust_lr", &S::adjust_lr,
                 OneOf<AdjustLr>(
                     {{{"match_rms_adamw"}, AdjustLr::kMatchRmsAdamW}, {{"original"}, AdjustLr::kOriginal}}),
                 "Muon: factor on the learning rate for a matrix of a rows and b columns. match_rms_adamw: "
                 "0.2 √max(a, b), which suits learning rates of AdamW; original: √max(1, a / b).",
                 {"adjust_lr_fn"}),
       MakeField("weight_decay", &S::weight_decay, NumberType({.min = 0}),
                 "Decoupled decay of the weights (SGD: added to the gradient); norms and biases have none."),
       MakeField("lr_scheduler", &S::lr_scheduler,
                 OneOf<LrSchedulerName>({{{"constant", {"constant_with_warmup"}}, LrSchedulerName::kConstant},
                                         {{"linear"}, LrSchedulerName::kLinear},
                                         {{"cosine", {"cosine_with_min_lr"}}, LrSchedulerName::kCosine}}),
                 "Course of the learning rate after the warm-up.", {"lr_scheduler_type"}),
       MakeField("min_lr_ratio", &S::min_lr_ratio, NumberType({.min = 0, .max = 1}),
                 "Where the learning rate ends, as a share of its highest."),
       MakeField("warmup_ratio", &S::warmup_ratio, NullOr(NumberType({.min = 0, .max = 1})),
                 "Warm-up as a share of all steps, rounded down; 0.03 unless warmup_steps is given."),
       MakeField("warmup_steps", &S::warmup_steps, NullOr(IntType(0)),
                 "Warm-up in steps, instead of warmup_ratio."),
       MakeField("max_grad_norm", &S::max_grad_norm, NullOr(NumberType({.above = 0})),
                 "Gradients of a larger global norm are scaled down to it. null: no clipping.")});
}

void AddPrecision(KeyTable& table) {
  using S = PrecisionSection;
  table.AddSection<S>(
      "precision", "Number formats.", "weights", kFixed, Member(&Recipe::precision),
      {MakeField("weights", &S::weights,
                 AutoOr(OneOf<WeightType>({{{"fp32", {"float32"}}, WeightType::kFp32},
                                           {{"bf16", {"bfloat16"}}, WeightType::kBf16},
                                           {{"fp16", {"float16"}}, WeightType::kFp16}})),
                 "Weights and activations. auto: fp32 on CPU, bf16 on CUDA. A frozen model may stay in its "
                 "file's type."),
       MakeField("master", &S::master,
                 OneOf<MasterWeights>({{{"fp32"}, MasterWeights::kFp32}, {{"none"}, MasterWeights::kNone}}),
                 "The optimizer's own copy of weights in a lower precision. none, with bf16: weights are "
                 "rounded up or down at random, so that small updates are not lost."),
       MakeField("gradients", &S::gradients, OneOf<GradientType>({{{"fp32"}, GradientType::kFp32}}),
                 "Accumulation and reduction of gradients."),
       MakeField("loss_scale", &S::loss_scale, WordOr("dynamic", NumberType({.above = 0})),
                 "fp16 only: factor on the loss that keeps small gradients from vanishing. dynamic: from "
                 "65536, doubled after 2000 good steps, halved when gradients overflow.")});
}

void AddParallel(KeyTable& table) {
  using S = ParallelSection;
  table.AddSection<S>(
      "parallel", "The mesh of ranks.", "data", kFree, Member(&Recipe::parallel),
      {MakeField(
           "data", &S::data, AutoOr(Ranks()),
           "Ranks that share the batch. auto, here or at one of the other axes: the ranks that the rest "
           "leaves."),
       MakeField("tensor", &S::tensor, AutoOr(Ranks()), "Ranks that share each layer."),
       MakeField("pipeline", &S::pipeline, AutoOr(Ranks()), "Stages that share the blocks."),
       MakeField("context", &S::context, AutoOr(Ranks()), "Ranks that share each sequence."),
       MakeField(
           "zero", &S::zero, IntType(0, 3),
           "ZeRO stage: 1 shards the optimizer's state over the ranks of data, 2 gradients too, 3 weights "
           "too."),
       MakeField(
           "shard_size", &S::shard_size, AutoOr(Ranks()),
           "Ranks of data that ZeRO shards over; the shards are replicated over the others. auto: all."),
       MakeField("bucket_size", &S::bucket_size, SizeType(),
                 "Gradients that are reduced together while the backward pass runs."),
       MakeField("persistence_threshold", &S::persistence_threshold, IntType(0),
                 "ZeRO 3: parameters of fewer elements stay whole on every rank."),
       MakeField(
           "reshard_after_forward", &S::reshard_after_forward, BoolType(),
           "ZeRO 3: give up a block's gathered weights after each use. false: keep them from their first "
           "use in a step to its update, for less traffic and more memory."),
       MakeField("sequence_parallel", &S::sequence_parallel, BoolType(),
                 "Share norms and residuals too; with tensor > 1."),
       MakeField(
           "schedule", &S::schedule,
           ScheduleType({"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min"}),
           "Order of the pipeline's work: one of the known ones, or a file with a line of actions a rank."),
       MakeField("virtual_stages", &S::virtual_stages, IntType(1, 1000),
                 "Stages per rank of the pipeline: 2 with zb-v, v-half and v-min, above 1 with interleaved."),
       MakeField(
           "stages", &S::stages, AutoOr(ListOf(IntType(0, 100000), "a list of layer counts")),
           "Decoder layers of each stage, the first of which has the embedding too, and the last the head. "
           "auto: balanced by their cost."),
       MakeField("compression", &S::compression,
                 OneOf<CompressionName>({{{"none"}, CompressionName::kNone},
                                         {{"bf16"}, CompressionName::kBf16},
                                         {{"int8"}, CompressionName::kInt8},
                                         {{"topk"}, CompressionName::kTopK},
                                         {{"1bit"}, CompressionName::kOneBit}}),
                 "Form of gradients on the wire, for slow links."),
       MakeField("compression_ratio", &S::compression_ratio, NumberType({.above = 0, .max = 1}),
                 "Share of the gradients that compression: topk sends.")});
}

void AddMemory(KeyTable& table) {
  using S = MemorySection;
  table.AddSection<S>(
      "memory", "Trading time for memory.", "activation_checkpointing", kFree, Member(&Recipe::memory),
      {MakeField("activation_checkpointing", &S::activation_checkpointing, ActivationCheckpointingType(),
                 "Activations computed again in the backward pass: of no block, every block, every n-th "
                 "block, or only "
                 "what is cheap (selective).",
                 {"gradient_checkpointing"}),
       MakeField(
           "offload", &S::offload,
           OneOf<Offload>({{{"none"}, Offload::kNone},
                           {{"optimizer"}, Offload::kOptimizer},
                           {{"parameters"}, Offload::kParameters}}),
           "What is kept outside the device's memory: the optimizer's states and the master copies of the "
           "weights (optimizer). On the CPU that is a file without a name in output_dir.")});
}

void AddCheckpoint(KeyTable& table) {
  using S = CheckpointSection;
  table.AddSection<S>(
      "checkpoint", "What is saved for resuming.", "save_steps", kFree, Member(&Recipe::checkpoint),
      {MakeField("save_steps", &S::save_steps, AutoOr(IntType(1)),
                 "Save every so many steps, and always at the end. auto: about every 15 minutes."),
       MakeField("saves_per_epoch", &S::saves_per_epoch, NullOr(NumberType({.above = 0, .max = 1e6})),
                 "Save so often per epoch, instead of save_steps."),
       MakeField("keep_last", &S::keep_last, IntType(1),
                 "How many checkpoints are kept, and how many of those that are set aside as the run went "
                 "back behind them.",
                 {"save_total_limit"}),
       MakeField("keep_best", &S::keep_best, BoolType(),
                 "Save at each evaluation that is the best so far, and keep that checkpoint too."),
       MakeField("keep_every", &S::keep_every, NullOr(IntType(1)),
                 "Keep also the checkpoints of steps that are multiples of this."),
       MakeField("async", &S::async, BoolType(),
                 "Write while training goes on, from a copy in memory as large as the rank's share."),
       MakeField(
           "when_busy", &S::when_busy,
           OneOf<WhenBusy>({{{"wait"}, WhenBusy::kWait}, {{"skip"}, WhenBusy::kSkip}}),
           "What becomes of a save that is due while the one before is still being written. A save that "
           "somebody asked for always waits."),
       MakeField("stop_after", &S::stop_after, NullOr(DurationType()), "Save and stop after so long.")});
}

void AddLog(KeyTable& table) {
  using S = LogSection;
  table.AddSection<S>(
      "log", "What is recorded.", "every", kFree, Member(&Recipe::log),
      {MakeField("every", &S::every, IntType(1), "A line of log.jsonl every so many steps.",
                 {"logging_steps"}),
       MakeField("tensorboard", &S::tensorboard, BoolType(),
                 "Write what is measured to RUN/tensorboard, too, as TensorBoard reads it."),
       MakeField("hook", &S::hook, NullOr(TextType("a command")),
                 "A command (of /bin/sh) that is fed the lines of log.jsonl while the run writes them; what "
                 "it prints "
                 "is in RUN/hook.log."),
       MakeField("trace_step", &S::trace_step, NullOr(IntType(1)),
                 "A step whose timeline is written, of all ranks: trace.json, for Chrome's trace viewer or "
                 "Perfetto."),
       MakeField("metrics_port", &S::metrics_port, NullOr(IntType(0, 65535)),
                 "Serve pages for Prometheus on this port while the run lasts: /metrics, and /status. 0: one "
                 "that the system chooses."),
       MakeField("metrics_address", &S::metrics_address, TextType("a name or an address of this host"),
                 "Where metrics_port is. 0.0.0.0: on all addresses of the host, for all who can reach it.")});
}

Type<std::vector<Host>> Hosts() {
  return ListOf(RecordOf<Host>(
                    {MakeField("host", &Host::host, TextType("a host name"), "Its name, as ssh knows it."),
                     MakeField("slots", &Host::slots, NullOr(Ranks()), "Ranks on it. null: ranks_per_host.")},
                    "a host name, or a map of host and slots"),
                "a list of host names, or of maps of host and slots");
}

void AddLaunch(KeyTable& table) {
  using S = LaunchSection;
  table.AddSection<S>(
      "launch", "Where the ranks run.", "kind", kFree, Member(&Recipe::launch),
      {MakeField("kind", &S::kind,
                 AutoOr(OneOf<LaunchKind>({{{"local"}, LaunchKind::kLocal},
                                           {{"ssh"}, LaunchKind::kSsh},
                                           {{"slurm"}, LaunchKind::kSlurm},
                                           {{"env"}, LaunchKind::kEnv}})),
                 "Who starts them. auto: found out from the environment and from hosts."),
       MakeField("device", &S::device,
                 AutoOr(OneOf<DeviceKind>({{{"cpu"}, DeviceKind::kCpu}, {{"cuda"}, DeviceKind::kCuda}})),
                 "auto: CUDA where there is a device, else CPU."),
       MakeField("hosts", &S::hosts, Hosts(), "Hosts to run on, over SSH."),
       MakeField("hostfile", &S::hostfile, NullOr(Path(PathUse::kInput)),
                 "A DeepSpeed host file, instead of hosts."),
       MakeField(
           "include", &S::include, NullOr(TextType("hosts such as node1@node2:0,2")),
           "The only hosts of these that are used, joined by @; after a colon the slots, where not all are."),
       MakeField("exclude", &S::exclude, NullOr(TextType("hosts such as node1@node2:0,2")),
                 "Hosts, or slots, of these that are not used, written likewise."),
       MakeField("program", &S::program, NullOr(TextType("a path")),
                 "Where ftune is on the other hosts. null: at the same place as here."),
       MakeField("copy_program", &S::copy_program, BoolType(),
                 "Copy this ftune to hosts that have none there, or another one: into the user's cache."),
       MakeField(
           "tls", &S::tls, BoolType(),
           "Encrypt the rendezvous of ranks on several hosts, with a certificate made for the run. What "
           "they exchange in training is not encrypted."),
       MakeField("ranks_per_host", &S::ranks_per_host, AutoOr(Ranks()),
                 "Ranks that ftune starts on a host. auto: its GPUs; on CPU the product of the axes that are "
                 "set, 1 "
                 "where none is."),
       MakeField("threads", &S::threads, AutoOr(IntType(1, 65536)), "Per rank. auto: cores ÷ ranks."),
       MakeField("max_restarts", &S::max_restarts, IntType(0), "Restarts after a failure before giving up."),
       MakeField("min_hosts", &S::min_hosts, NullOr(Ranks()),
                 "Go on while so many hosts are left, and take back the others when they return. null: all."),
       MakeField("max_hosts", &S::max_hosts, NullOr(Ranks()),
                 "So many have ranks, the others stand in for those that fail. null: all."),
       MakeField("start_timeout", &S::start_timeout, DurationType(), "Longest wait until the first step."),
       MakeField("step_timeout", &S::step_timeout, DurationType(), "Longest wait for others within a step."),
       MakeField("heartbeat_timeout", &S::heartbeat_timeout, DurationType(),
                 "A rank that gives no sign of life for so long is given up."),
       MakeField("hang_timeout", &S::hang_timeout, NullOr(DurationType()),
                 "The run is ended, and started again, where no rank shows anything new for so long. null: "
                 "step_timeout."),
       MakeField("exclude_stragglers", &S::exclude_stragglers, BoolType(),
                 "Leave out hosts of slow ranks when the run is started again and min_hosts are left.")});

  using L = SlurmSection;
  table.AddSection<L>(
      "launch.slurm", "What a submitted Slurm job asks for.", "partition", kFree,
      {[](const Recipe& recipe) { return &recipe.launch.slurm; },
       [](Recipe& recipe) -> L& { return recipe.launch.slurm; }},
      {MakeField("partition", &L::partition, NullOr(TextType("a partition")), "Its partition."),
       MakeField("account", &L::account, NullOr(TextType("an account")), "The account it is charged to."),
       MakeField("time", &L::time, NullOr(TextType("a time limit such as 04:00:00")),
                 "Its time limit, as Slurm writes it."),
       MakeField("nodes", &L::nodes, Ranks(), "Its nodes."),
       MakeField("gpus_per_node", &L::gpus_per_node, NullOr(IntType(0, 1000)), "GPUs on each of them."),
       MakeField("constraint", &L::constraint, NullOr(TextType("features such as a100&nvlink")),
                 "Features that they must have."),
       MakeField("extra", &L::extra, ListOf(TextType("a line"), "a list of lines"),
                 "Further #SBATCH lines, without the #SBATCH.")});
}

}  // namespace

const KeyTable& RecipeKeys() {
  static const KeyTable table = [] {
    KeyTable keys;
    AddTop(keys);
    AddModel(keys);
    AddAdapter(keys);
    AddData(keys);
    AddTrain(keys);
    AddOptimizer(keys);
    AddPrecision(keys);
    AddParallel(keys);
    AddMemory(keys);
    AddCheckpoint(keys);
    AddLog(keys);
    AddLaunch(keys);
    return keys;
  }();
  return table;
}

}  // namespace ftune
