#include "cmd/standard_input.h"

#include <iostream>
#include <iterator>

namespace ftune {

std::string ReadStandardInput() {
  return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
}

}  // namespace ftune
