#include "data/template/chat_context.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/template/jinja_error.h"

namespace ftune {
namespace {

using jinja::Dict;
using jinja::Error;
using jinja::List;
using jinja::Origin;
using jinja::Tag;
using jinja::Text;
using jinja::Value;

// Depth is checked before the recursion goes down, so that no nesting of the input can exhaust the stack.
Value FromJson(const OrderedJson& json, const Tag& tag, int depth) {
  if (depth > jinja::Budget::kMaxValueDepth) throw Error("the data is nested more than 200 deep");
  switch (json.type()) {
    case OrderedJson::value_t::string:
      return Value(Text(json.get_ref<const std::string&>(), tag));
    case OrderedJson::value_t::boolean:
      return Value(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return Value(json.get<int64_t>());
    case OrderedJson::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw Error(StrCat("the number ", json.get<uint64_t>(), " does not fit 64 bits with a sign"));
      }
      return Value(json.get<int64_t>());
    case OrderedJson::value_t::number_float:
      return Value(json.get<double>());
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json) items.push_back(FromJson(item, tag, depth + 1));
      auto list = std::make_shared<List>(jinja::ListKind::kList, std::move(items));
      list->tag = tag;
      return Value(jinja::ListPtr(std::move(list)));
    }
    case OrderedJson::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        entries.emplace_back(Value(Text(key, tag)), FromJson(item, tag, depth + 1));
      }
      auto dict = std::make_shared<Dict>(std::move(entries));
      dict->tag = tag;
      return Value(jinja::DictPtr(std::move(dict)));
    }
    default:
      return Value();
  }
}

// Names a message's reasoning goes by; transformers fills them from one another.
constexpr const char* kReasoningKeys[] = {"reasoning_content", "thinking", "reasoning"};

const OrderedJson* FindReasoning(const OrderedJson& message) {
  for (const char* key : kReasoningKeys) {
    const auto found = message.find(key);
    if (found != message.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

Value FromMessage(const OrderedJson& message, int32_t index) {
  std::vector<std::pair<Value, Value>> entries;
  const auto add = [&](const std::string& key, const OrderedJson& json) {
    const bool header = key == "role" || key == "name";
    const Origin origin = header ? Origin::kHeader : key == "tool_calls" ? Origin::kToolCalls : Origin::kBody;
    const Tag tag{.source = index, .origin = origin};
    entries.emplace_back(Value::String(key), FromJson(json, tag, 2));
  };
  const OrderedJson* reasoning = FindReasoning(message);
  const auto has = [&](const char* key) { return message.contains(key) && !message[key].is_null(); };
  if (reasoning != nullptr) add("thinking", has("thinking") ? message["thinking"] : *reasoning);
  for (const auto& [key, json] : message.items()) {
    // Absent rather than None: templates print a None's name.
    const bool added = key == "thinking" && reasoning != nullptr;
    if (json.is_null() || added) continue;
    add(key, key == "reasoning_content" ? *reasoning : json);
  }
  if (reasoning != nullptr && !has("reasoning_content")) add("reasoning_content", *reasoning);
  auto dict = std::make_shared<Dict>(std::move(entries));
  dict->message = index;
  dict->tag = Tag{.source = index, .origin = Origin::kBody};
  return Value(jinja::DictPtr(std::move(dict)));
}

Value FromMessages(const OrderedJson& messages) {
  if (!messages.is_array()) throw Error("'messages' must be a list of messages");
  std::vector<Value> values;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object())
      throw Error(StrCat("messages[", i, "] is not an object with a role and a content"));
    values.push_back(FromMessage(messages[i], static_cast<int32_t>(i)));
  }
  return jinja::MakeList(jinja::ListKind::kList, std::move(values));
}

// Further variables; each name is new.
void AddVariables(const OrderedJson& more, jinja::Variables& variables) {
  if (!more.is_object()) throw Error("the further variables of a chat template must be an object");
  for (const auto& [key, json] : more.items()) {
    if (IsConversationVariable(key))
      throw Error(StrCat("the variable '", key, "' is set by the conversation and cannot be given again"));
    const bool given = std::any_of(variables.begin(), variables.end(),
                                   [&key = key](const auto& entry) { return entry.first == key; });
    if (!given) variables.emplace_back(key, FromJson(json, {}, 1));
  }
}

jinja::Variables MakeVariables(const ChatInput& input, const OrderedJson& defaults,
                               const SpecialTokens& special) {
  jinja::Variables variables;
  variables.emplace_back("messages", FromMessages(input.messages));
  variables.emplace_back("tools", FromJson(input.tools, {}, 1));
  variables.emplace_back("add_generation_prompt", Value(input.add_generation_prompt));
  AddVariables(input.extra, variables);
  AddVariables(defaults, variables);
  const auto set_default = [&](const char* name, Value value) {
    const bool given = std::any_of(variables.begin(), variables.end(),
                                   [&](const auto& entry) { return entry.first == name; });
    if (!given) variables.emplace_back(name, std::move(value));
  };
  const auto set_token = [&](const char* name, const std::optional<SpecialToken>& token) {
    if (token.has_value()) set_default(name, Value::String(token->text));
  };
  set_default("documents", Value());
  set_token("bos_token", special.bos);
  set_token("eos_token", special.eos);
  set_token("pad_token", special.pad);
  set_token("unk_token", special.unk);
  return variables;
}

}  // namespace

bool IsConversationVariable(std::string_view name) {
  return name == "messages" || name == "tools" || name == "add_generation_prompt";
}

std::string TakeOutReasoning(OrderedJson& message) {
  std::string name;
  for (const char* key : kReasoningKeys) {
    const auto found = message.find(key);
    if (found == message.end()) continue;
    const bool says_something = found->is_string() && found->get_ref<const std::string&>().find_first_not_of(
                                                          " \t\r\n") != std::string::npos;
    if (name.empty() && says_something) name = key;
    message.erase(key);
  }
  return name;
}

absl::StatusOr<jinja::Variables> MakeChatVariables(const ChatInput& input, const OrderedJson& defaults,
                                                   const SpecialTokens& special) {
  try {
    return MakeVariables(input, defaults, special);
  } catch (const Error& error) {
    ErrorDetail detail;
    detail.message = error.message;
    return DataError(std::move(detail));
  }
}

}  // namespace ftune
