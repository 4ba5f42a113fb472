#include "parallel/comm/gather_text.h"

#include "base/error.h"

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

}  // namespace ftune
