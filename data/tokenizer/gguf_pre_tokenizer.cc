#include "data/tokenizer/gguf_pre_tokenizer.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace ftune {
namespace {

// The patterns are those of the models' own tokenizer.json, each splitting what the one before it left,
// matches and gaps alike.
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters of scripts that have case.
constexpr std::string_view kDeepSeekLlmLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C})"
    R"(\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})"
    R"(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"
    R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})"
    R"(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})"
    R"(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepSeekLlmMarks =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepSeekHan = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kHanAndKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";

struct Entry {
  std::string_view names[7];
  std::string_view patterns[6];
  bool ignore_merges = false;
  bool add_bos = false;
  bool nfc = false;
};

constexpr Entry kEntries[] = {
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"}, {kLlama3}, true, true},
    {{"tekken"}, {kTekken}, true, true},
    {{"gpt-4o", "llama4"}, {kGpt4o}},
    {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {kLlama3}},
    {{"qwen2", "deepseek-r1-qwen", "megrez"}, {kQwen2}, false, false, true},
    {{"stablelm2", "hunyuan"}, {kQwen2}},
    {{"gpt-2", "phi-2", "mpt", "olmo", "exaone4"}, {kGpt2Pattern}},
    {{"modern-bert", "gigachat", "mellum", "jais", "trillion"}, {kGpt2Pattern}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell"}, {kDigit, kGpt2Pattern}},
    {{"exaone", "minerva-7b"}, {kDigit, kGpt2Pattern}},
    {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, kThreeDigits}},
    {{"deepseek-llm"},
     {"[\r\n]", kDeepSeekLlmLetters, kDeepSeekLlmMarks, R"(\s+$)", kDeepSeekHan, R"(\p{N}+)"}},
    {{"deepseek-coder"}, {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekHan, kDigit}},
    {{"deepseek-v3", "hunyuan-dense"}, {R"(\p{N}{1,3})", kHanAndKana, kDeepSeek3}},
    // What llama.cpp does where a file does not say.
    {{"default", ""}, {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", kThreeDigits}},
};

std::span<const std::string_view> Patterns(const Entry& entry) {
  const auto used = std::find(std::begin(entry.patterns), std::end(entry.patterns), std::string_view());
  return {std::begin(entry.patterns), used};
}

const Entry* FindEntry(std::string_view name) {
  for (const Entry& entry : kEntries) {
    const auto* found = std::find(std::begin(entry.names), std::end(entry.names), name);
    if (found == std::end(entry.names)) continue;
    if (!name.empty() || entry.names[0] == "default") return &entry;  // unused places are empty
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<GgufSplitRules> FindGgufSplitRules(std::string_view name, const std::string& file) {
  const Entry* entry = FindEntry(name);
  if (entry == nullptr) {
    return DataError(
        {.file = file,
         .key = "tokenizer.ggml.pre",
         .message = "this pre-tokenizer is not known",
         .found = std::string(name),
         .hint = "use the model's Hugging Face folder, whose tokenizer.json says how text is split"});
  }
  return GgufSplitRules{.patterns = Patterns(*entry),
                        .nfc = entry->nfc,
                        .ignore_merges = entry->ignore_merges,
                        .add_bos = entry->add_bos};
}

std::optional<std::string_view> NameGgufSplitRules(std::span<const std::string> patterns, bool nfc,
                                                   bool ignore_merges) {
  for (const Entry& entry : kEntries) {
    const auto own = Patterns(entry);
    const bool same = entry.nfc == nfc && entry.ignore_merges == ignore_merges &&
                      std::equal(own.begin(), own.end(), patterns.begin(), patterns.end());
    if (same && entry.names[0] != "default") return entry.names[0];
  }
  return std::nullopt;
}

absl::StatusOr<GgufPreTokenizer> MakeGgufPreTokenizer(const std::string& name, const std::string& file) {
  FTUNE_ASSIGN_OR_RETURN(const GgufSplitRules rules, FindGgufSplitRules(name, file));
  GgufPreTokenizer made;
  made.ignore_merges = rules.ignore_merges;
  made.add_bos = rules.add_bos;
  if (rules.nfc) made.normalizers.push_back(MakeUnicodeForm(UnicodeForm::kNfc));
  for (const std::string_view pattern : rules.patterns) {
    FTUNE_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
    made.steps.Add(MakeSplit(std::move(regex), SplitBehavior::kIsolated, false));
  }
  made.steps.byte_level = true;
  return made;
}

}  // namespace ftune
