#include "data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "base/strings.h"
#include "data/tokenizer/oniguruma.h"

namespace ftune {
namespace {

constexpr size_t kJitStackStart = 64 << 10;
constexpr size_t kJitStackMost = 64 << 20;

// Frees the PCRE2 objects it holds.
template <typename T, void (*kFree)(T*)>
struct Freer {
  void operator()(T* object) const { kFree(object); }
};
template <typename T, void (*kFree)(T*)>
using Owned = std::unique_ptr<T, Freer<T, kFree>>;

}  // namespace

struct Regex::Code {
  Owned<pcre2_code, pcre2_code_free> compiled;
  bool jit = false;
};

struct Regex::Matcher::State {
  std::shared_ptr<const Code> code;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Owned<pcre2_match_data, pcre2_match_data_free> data;
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> jit_stack;  // only once the machine's stack did not do
};

absl::StatusOr<Regex> Regex::CompilePcre2(const std::string& pattern) {
  Owned<pcre2_compile_context, pcre2_compile_context_free> context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  // ^ and $ match at lines in Oniguruma's default syntax.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_shared<Code>();
  compiled->compiled.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                         kOptions, &code, &offset, context.get()));
  if (compiled->compiled == nullptr) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(code, message, sizeof(message));
    return DataError({.message = StrCat("the regular expression cannot be used: ",
                                        reinterpret_cast<const char*>(message), " at byte ", offset),
                      .found = pattern});
  }
  compiled->jit = pcre2_jit_compile(compiled->compiled.get(), PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(compiled));
}

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  FTUNE_ASSIGN_OR_RETURN(const std::string translated, OnigurumaToPcre2(pattern));
  return CompilePcre2(translated);
}

absl::StatusOr<Regex> Regex::CompileLiteral(std::string_view text) {
  return CompilePcre2(EscapeForPcre2(text));
}

Regex::Matcher::Matcher(const Regex& regex) : state_(std::make_unique<State>()) {
  state_->code = regex.code_;
  state_->context.reset(pcre2_match_context_create(nullptr));
  state_->data.reset(pcre2_match_data_create_from_pattern(regex.code_->compiled.get(), nullptr));
}

Regex::Matcher::~Matcher() = default;

bool Regex::Matcher::Find(std::string_view text, size_t from, size_t* begin, size_t* end) {
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const pcre2_code* code = state_->code->compiled.get();
  const auto jit_match = [&] {
    return pcre2_jit_match(code, subject, text.size(), from, 0, state_->data.get(), state_->context.get());
  };
  int result = PCRE2_ERROR_JIT_BADOPTION;
  if (state_->code->jit) {
    result = jit_match();
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && state_->jit_stack == nullptr) {
      state_->jit_stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMost, nullptr));
      pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->jit_stack.get());
      result = jit_match();
    }
  }
  if (result == PCRE2_ERROR_JIT_BADOPTION || result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         state_->data.get(), state_->context.get());
  }
  if (result < 0) return false;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state_->data.get());
  *begin = bounds[0];
  *end = bounds[1];
  return *begin <= *end;  // \K in a look-ahead can turn it round
}

}  // namespace ftune
