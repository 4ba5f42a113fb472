#include "data/source/tool_calls.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

OrderedJson Wrapped(OrderedJson function) {
  return {{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace

absl::StatusOr<OrderedJson> ReadTools(const RowFields& fields) {
  const OrderedJson* tools = fields.Find("tools");
  const auto functions = fields.row().find("functions");
  const bool has_functions = functions != fields.row().end() && !functions->is_null();
  if (tools != nullptr && has_functions) {
    return RowError(fields.place(), {.key = "functions",
                                     .message = "the row has its tools twice",
                                     .found = StrCat("functions and ", fields.NameOf("tools")),
                                     .expected = "one of them"});
  }
  if (tools == nullptr && !has_functions) return OrderedJson();
  const std::string name = has_functions ? "functions" : fields.NameOf("tools");
  if (has_functions) tools = &*functions;
  OrderedJson list = *tools;
  if (list.is_string()) {
    const std::string& text = list.get_ref<const std::string&>();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return OrderedJson();
    list = ParseOrderedJson(text).value_or(*tools);
  }
  if (!list.is_array()) {
    return RowError(
        fields.place(),
        {.key = name, .found = DescribeValue(*tools), .expected = "a list of functions, or its JSON text"});
  }
  for (size_t i = 0; i < list.size(); ++i) {
    OrderedJson& tool = list[i];
    if (!tool.is_object()) {
      return RowError(fields.place(), {.key = StrCat(name, "[", i, "]"),
                                       .found = DescribeValue(tool),
                                       .expected = "an object that describes a function"});
    }
    if (tool.contains("name") && !tool.contains("function")) tool = Wrapped(std::move(tool));
  }
  if (list.empty()) return OrderedJson();
  return list;
}

absl::Status ParseArguments(const RowPlace& place, const std::string& key, OrderedJson& calls) {
  if (!calls.is_array())
    return RowError(place, {.key = key, .found = DescribeValue(calls), .expected = "a list"});
  for (OrderedJson& call : calls) {
    if (!call.is_object()) {
      return RowError(place, {.key = key, .found = DescribeValue(call), .expected = "objects with function"});
    }
    const auto function = call.find("function");
    OrderedJson& owner = function != call.end() && function->is_object() ? *function : call;
    const auto name = owner.find("name");
    if (name == owner.end() || !name->is_string()) {
      return RowError(place,
                      {.key = key, .message = "a call has no function name", .found = DescribeKeys(owner)});
    }
    const auto arguments = owner.find("arguments");
    if (arguments == owner.end() || !arguments->is_string()) continue;
    const std::string& text = arguments->get_ref<const std::string&>();
    std::optional<OrderedJson> parsed = text.empty() ? OrderedJson::object() : ParseOrderedJson(text);
    if (!parsed || !parsed->is_object()) {
      return RowError(place, {.key = key,
                              .message = "the arguments of a call are not a JSON object",
                              .found = DescribeValue(*arguments)});
    }
    *arguments = *std::move(parsed);
  }
  return absl::OkStatus();
}

absl::StatusOr<OrderedJson> CallsOf(const RowPlace& place, const std::string& key, const OrderedJson& call) {
  OrderedJson calls = OrderedJson::array();
  if (call.is_array()) {
    for (const OrderedJson& one : call) calls.push_back(Wrapped(one));
  } else {
    calls.push_back(Wrapped(call));
  }
  for (const OrderedJson& one : calls) {
    if (one.at("function").is_object()) continue;
    return RowError(place, {.key = key,
                            .found = DescribeValue(one.at("function")),
                            .expected = R"({"name": "…", "arguments": {…}})"});
  }
  FTUNE_RETURN_IF_ERROR(ParseArguments(place, key, calls));
  return calls;
}

absl::StatusOr<OrderedJson> CallsOfText(const RowPlace& place, const std::string& key,
                                        const std::string& text) {
  const std::optional<OrderedJson> call = ParseOrderedJson(text);
  if (!call) {
    return RowError(place, {.key = key,
                            .message = "a function call is not JSON",
                            .found = DescribeValue(text),
                            .expected = R"({"name": "…", "arguments": {…}})"});
  }
  return CallsOf(place, key, *call);
}

}  // namespace ftune
