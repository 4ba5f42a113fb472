#include "base/http/network_library.h"

#include "base/error.h"
#include "base/sibling_library.h"

namespace ftune {

absl::StatusOr<Network*> LoadNetwork() {
  FTUNE_ASSIGN_OR_RETURN(
      void* const symbol,
      SiblingSymbol("libftune_network.so", kNetworkSymbol, "downloads",
                    "keep it beside ftune, or put the files into the cache on another machine"));
  return &reinterpret_cast<NetworkFunction>(symbol)();
}

}  // namespace ftune
