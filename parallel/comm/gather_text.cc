#include "parallel/comm/gather_text.h"

#include <array>
#include <cstdint>

#include "base/error.h"
#include "parallel/comm/status_text.h"

namespace ftune {

absl::StatusOr<std::vector<std::string>> GatherText(Communicator& group, const std::string& text) {
  std::vector<int64_t> sizes(group.size());
  int64_t size = static_cast<int64_t>(text.size());
  FTUNE_RETURN_IF_ERROR(
      group.Run(Call::AllGather({reinterpret_cast<std::byte*>(&size), 1, DType::kI64, {}},
                                {reinterpret_cast<std::byte*>(sizes.data()), group.size(), DType::kI64, {}},
                                std::vector<int64_t>(group.size(), 1))));
  std::vector<std::string> texts;
  if (group.rank() != 0) {
    std::string own = text;
    const Buffer buffer = {reinterpret_cast<std::byte*>(own.data()), size, DType::kU8, {}};
    FTUNE_RETURN_IF_ERROR(group.Run(Call::Send(buffer, 0)));
    return texts;
  }
  texts.push_back(text);
  for (int rank = 1; rank < group.size(); ++rank) {
    std::string& other = texts.emplace_back(sizes[rank], '\0');
    const Buffer buffer = {reinterpret_cast<std::byte*>(other.data()), sizes[rank], DType::kU8, {}};
    FTUNE_RETURN_IF_ERROR(group.Run(Call::Receive(buffer, rank)));
  }
  return texts;
}

absl::StatusOr<std::string> TextOfFirst(Communicator& group, const absl::StatusOr<std::string>& own) {
  std::string text = own.ok() ? *own : EncodeStatus(own.status());
  std::array<int64_t, 2> facts = {own.ok() ? 1 : 0, static_cast<int64_t>(text.size())};
  FTUNE_RETURN_IF_ERROR(
      group.Run(Call::Broadcast({reinterpret_cast<std::byte*>(facts.data()), 2, DType::kI64, {}}, 0)));
  text.resize(static_cast<size_t>(facts[1]));
  FTUNE_RETURN_IF_ERROR(
      group.Run(Call::Broadcast({reinterpret_cast<std::byte*>(text.data()), facts[1], DType::kU8, {}}, 0)));
  if (facts[0] == 0) return HeardStatus(text);
  return text;
}

}  // namespace ftune
