// Regular expressions as tokenizer files use them, run by PCRE2 (JIT, UTF, UCP).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/tokenizer/utf8.h"

namespace ftune {

// Compiled once, shared by threads; each thread matches through a Matcher of its own.
class Regex {
 public:
  // `pattern` in Oniguruma's syntax, as tokenizer.json has it. The message of an error says what is wrong
  // where, but not in which file.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);
  // Matches `text` itself.
  static absl::StatusOr<Regex> CompileLiteral(std::string_view text);

  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    // The leftmost match in `text` (valid UTF-8) that starts at or behind `from`. Look-behind sees all of
    // `text`. A match that needs more memory or time than PCRE2's limits counts as none.
    bool Find(std::string_view text, size_t from, size_t* begin, size_t* end);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  static absl::StatusOr<Regex> CompilePcre2(const std::string& pattern);
  std::shared_ptr<const Code> code_;
};

// Calls visit(begin, end) for each match, left to right, without overlap. An empty match directly behind the
// match before it does not count (as Oniguruma's find_iter has it).
template <typename Visit>
void ForEachMatch(Regex::Matcher& matcher, std::string_view text, const Visit& visit) {
  size_t from = 0;
  size_t last_end = std::string_view::npos;
  size_t begin, end;
  while (from <= text.size() && matcher.Find(text, from, &begin, &end)) {
    if (begin == end && end == last_end) {
      from += from < text.size() ? Utf8Length(text[from]) : 1;
      continue;
    }
    visit(begin, end);
    from = end;
    last_end = end;
  }
}

}  // namespace ftune
