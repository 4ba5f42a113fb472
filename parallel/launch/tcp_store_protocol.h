// The messages of torch.distributed's TCPStore (c10d/TCPStore.cpp), of which ftune speaks what it needs. A
// request is a byte and its arguments. Integers are as the machine has them, which must be little-endian on
// all hosts; a text is a 64-bit length and its bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ftune::tcp_store {

static_assert(std::endian::native == std::endian::little);

enum class Request : uint8_t {
  kValidate = 0,  // kMagic as 32 bits: first on each connection; no answer
  kSet = 1,       // key, value; no answer
  kGet = 3,       // key, which is there; answer: value
  kCheck = 5,     // a 64-bit number of keys, the keys; answer at once: kThere if all are, or kNotThere
  kWait = 6,      // a 64-bit number of keys, the keys; answer when all are there: kStopWaiting
};
inline constexpr uint32_t kMagic = 0x3C85F7CE;
inline constexpr uint8_t kStopWaiting = 0;
inline constexpr uint8_t kThere = 0;
inline constexpr uint8_t kNotThere = 1;

// Keys that mean something to TcpStoreServer, though not to another's. A rank that sets kPresent and its
// number, with a value that is not empty, lives as long as that connection: when it is closed, the server
// sets kTrouble to the number. The first value of kTrouble stays.
inline constexpr std::string_view kPresent = "present/";
inline constexpr std::string_view kTrouble = "trouble";

inline constexpr uint64_t kLongestText = 1 << 20;

template <class T>
void AppendInteger(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline void AppendText(std::string& to, std::string_view text) {
  AppendInteger(to, static_cast<uint64_t>(text.size()));
  to.append(text);
}

}  // namespace ftune::tcp_store
