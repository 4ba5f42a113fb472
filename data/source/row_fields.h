// The columns of one row under our names, with errors that use the row's own.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/source/row.h"
#include "data/source/row_mapping.h"

namespace ftune {

// An error where `text` has a NUL character, which no text means to have and not every template or tokenizer
// keeps. `key` is the text's place in the row.
absl::Status CheckNoNulInField(std::string_view text, const std::string& key, const RowPlace& place);

class RowFields {
 public:
  // All three outlive the object.
  RowFields(const OrderedJson& row, const RowPlace& place, const RowMapping& mapping)
      : row_(row), place_(place), mapping_(mapping) {}

  const OrderedJson& row() const { return row_; }
  const RowPlace& place() const { return place_; }
  const RowMapping& mapping() const { return mapping_; }

  // The row's name of a column.
  std::string NameOf(const std::string& column) const;
  // Null where the row has no such column, or null in it.
  const OrderedJson* Find(const std::string& column) const;

  // The column must be there, and a string.
  absl::StatusOr<std::string> Text(const std::string& column) const;
  // "" where the row does not have it.
  absl::StatusOr<std::string> TextOr(const std::string& column) const;
  // The column must be there: a list, or a list's JSON text, as tables have it that know no lists.
  absl::StatusOr<OrderedJson> List(const std::string& column) const;

  // `problem.key` is what follows the column's name in the key.
  absl::Status Error(const std::string& column, RowProblem problem) const;
  absl::Status Missing(const std::string& column) const;

 private:
  const OrderedJson& row_;
  const RowPlace& place_;
  const RowMapping& mapping_;
};

}  // namespace ftune
