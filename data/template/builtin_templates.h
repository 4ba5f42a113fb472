// Chat templates that can be named: the formats that models are commonly taught, for bases that bring none.
// Their texts are data/template/builtin/*.jinja.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ftune {

// The Jinja text, or nothing where no built-in template has that name.
std::optional<std::string_view> FindBuiltinTemplate(std::string_view name);

// "alpaca, chatml, …"
std::string BuiltinTemplateNames();

}  // namespace ftune
