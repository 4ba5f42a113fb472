#include "cmd/recipe/mapping_types.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "cmd/recipe/nearest.h"
#include "data/source/row_mapping.h"

namespace ftune {
namespace {

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// `type` with a check of each pair, which adds an error where it is wrong.
template <class Check>
Type<NameMap> Checked(Type<NameMap> type, Check check) {
  const auto read = type.read;
  type.read = [read, check](const Node& node, const Where& where) -> std::optional<NameMap> {
    const std::optional<NameMap> map = read(node, where);
    if (!map) return map;
    const size_t errors_before = where.errors->size();
    for (const Node::Entry& entry : node.entries) check(entry, where.Sub("." + entry.key));
    return where.errors->size() == errors_before ? map : std::nullopt;
  };
  return type;
}

std::string DidYouMean(const std::string& word, const std::vector<std::string>& names) {
  const auto near = Nearest(word, names);
  return near ? StrCat("did you mean ", *near, "?") : "";
}

}  // namespace

Type<NameMap> ColumnsType() {
  return Checked(MapOf(TextType("a column's name"), "a map of our names and the dataset's"),
                 [](const Node::Entry& entry, const Where& where) {
                   if (Has(ColumnNames(), entry.key)) return;
                   where.Add(entry.line, {.message = "unknown column",
                                          .expected = StrCat("one of ", StrJoin(ColumnNames(), ", ")),
                                          .hint = DidYouMean(entry.key, ColumnNames())});
                 });
}

Type<NameMap> RolesType() {
  return Checked(MapOf(TextType("a role"), "a map of the dataset's roles and ours"),
                 [](const Node::Entry& entry, const Where& where) {
                   const std::string& role = entry.value.text;
                   if (Has(RoleNames(), role) || role == entry.key) return;
                   where.Wrong(entry.value,
                               StrCat("one of ", StrJoin(RoleNames(), ", "), ", or ", entry.key, " again"),
                               DidYouMean(role, RoleNames()));
                 });
}

}  // namespace ftune
