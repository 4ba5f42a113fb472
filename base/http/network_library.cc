#include "base/http/network_library.h"

#include "base/error.h"
#include "base/sibling_library.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<Network*> LoadNetwork(std::string_view what, std::string_view instead) {
  FTUNE_ASSIGN_OR_RETURN(void* const symbol,
                         SiblingSymbol("libftune_network.so", kNetworkSymbol, std::string(what),
                                       StrCat("keep it beside ftune, or ", instead)));
  return &reinterpret_cast<NetworkFunction>(symbol)();
}

}  // namespace ftune
