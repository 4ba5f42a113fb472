// A string of the template language that remembers, byte range by byte range, where it came from. Chat spans
// are read off this provenance, so that equal words of the user and the assistant are never mixed up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ftune::jinja {

enum class Origin : uint8_t {
  kTemplate,  // written by the template (or a number, a computed value)
  kHeader,    // a message's role or name: data, but not what the message says
  kBody,      // anything else of a message: content, reasoning
  kToolCalls,
};

struct Tag {
  int32_t turn = -1;        // the message whose loop iteration wrote these bytes; -1 outside such loops
  int32_t source = -1;      // the message whose data these bytes are; -1 for none
  int32_t generation = -1;  // which execution of a {% generation %} block wrote them; -1 for none
  Origin origin = Origin::kTemplate;
  bool operator==(const Tag&) const = default;
};

// Bytes up to `end` (from the previous run's end) share a tag. Neighbouring runs may carry equal tags: a run
// boundary also says where one piece of a concatenation ended and the next began.
struct Run {
  size_t end = 0;
  Tag tag;
};

class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
  Text(std::string bytes, const Tag& tag);

  const std::string& bytes() const { return bytes_; }
  // Empty: everything has the default tag.
  const std::vector<Run>& runs() const { return runs_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  void Append(std::string_view bytes, const Tag& tag = {});
  void Append(const Text& other) { AppendRange(other, 0, other.size()); }
  // Appends bytes [begin, end) of `other` with their tags.
  void AppendRange(const Text& other, size_t begin, size_t end);
  Text Range(size_t begin, size_t end) const;

  // One tag for something computed from the whole text: a message's data wins over the template's own words.
  Tag Merged() const;
  // Writes `turn` (and `generation`, where >= 0) over all tags.
  void Restamp(int32_t turn, int32_t generation);

  // Marked safe from HTML escaping (filters `safe` and `escape`); adding such a text to another escapes the
  // other.
  bool markup = false;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

// The tag for something computed from two others.
Tag MergeTags(const Tag& a, const Tag& b);

}  // namespace ftune::jinja
