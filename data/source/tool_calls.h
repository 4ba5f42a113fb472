// Tools and the calls of them, brought from the forms that datasets have into the one that chat templates are
// written for.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "data/source/row_fields.h"

namespace ftune {

// The tools of a row, as [{type: function, function: {name, …}}]; null where it has none. Takes the column
// `tools` (a list, or its JSON text; functions without the wrapper get it) or OpenAI's older `functions`.
absl::StatusOr<OrderedJson> ReadTools(const RowFields& fields);

// Calls whose arguments are JSON text, as OpenAI writes them, get the object: templates print it with
// `tojson`, which would quote the text a second time. `key` is the calls' place in the row.
absl::Status ParseArguments(const RowPlace& place, const std::string& key, OrderedJson& calls);

// tool_calls of OpenAI's older function_call: {name, arguments}, or a list of them.
absl::StatusOr<OrderedJson> CallsOf(const RowPlace& place, const std::string& key, const OrderedJson& call);

// The same from JSON text.
absl::StatusOr<OrderedJson> CallsOfText(const RowPlace& place, const std::string& key,
                                        const std::string& text);

}  // namespace ftune
