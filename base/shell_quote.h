// Words for a POSIX shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ftune {

// What a shell reads as this very word: as it is where that is one, else in single quotes.
std::string ShellQuote(std::string_view word);

// A command line of them.
std::string ShellQuote(const std::vector<std::string>& words);

}  // namespace ftune
