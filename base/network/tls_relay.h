// Connections that are encrypted, by OpenSSL: see base/http/network.h.
#pragma once

#include <optional>
#include <string>

#include "base/http/network.h"

namespace ftune {

std::optional<TlsIdentity> MakeTlsIdentity();
std::string RelayTlsAsServer(const TlsIdentity& identity, int encrypted, int plain);
std::string RelayTlsAsClient(const std::string& fingerprint, int encrypted, int plain);

}  // namespace ftune
