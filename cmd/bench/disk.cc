#include "cmd/bench/disk.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <span>

#include "base/async_file.h"
#include "base/error.h"
#include "base/monotonic_clock.h"
#include "engine/backend/cpu/cpu_backend.h"

namespace ftune {
namespace {

constexpr int64_t kPieceBytes = int64_t{32} << 20;  // as an optimizer's piece
constexpr int64_t kPieces = 6;
constexpr int64_t kSmallBytes = ScratchFile::kAlignment;

// Each piece is written, and read while the next is written.
absl::Status VisitPieces(AsyncFile& file, const std::array<Tensor, 2>& memory) {
  std::array<TicketFile::Ticket, 2> written = {0, 0};
  TicketFile::Ticket read = 0;
  const auto begin_write = [&](int64_t piece) {
    const std::span<const std::byte> from(memory[piece % 2].bytes(), static_cast<size_t>(kPieceBytes));
    written[piece % 2] = file.Write(from, piece * kPieceBytes);
  };
  begin_write(0);
  for (int64_t piece = 0; piece < kPieces; ++piece) {
    FTUNE_RETURN_IF_ERROR(file.Wait(written[piece % 2]));
    if (piece + 1 < kPieces) begin_write(piece + 1);
    const std::span<std::byte> to(memory[piece % 2].bytes(), static_cast<size_t>(kPieceBytes));
    read = file.Read(to, piece * kPieceBytes);
    FTUNE_RETURN_IF_ERROR(file.Wait(read));
  }
  return absl::OkStatus();
}

absl::Status VisitSmall(AsyncFile& file, const Tensor& memory) {
  const std::span<std::byte> bytes(memory.bytes(), static_cast<size_t>(kSmallBytes));
  FTUNE_RETURN_IF_ERROR(file.Wait(file.Write(bytes, 0)));
  return file.Wait(file.Read(bytes, 0));
}

// Seconds until all ranks are through.
absl::StatusOr<double> SecondsOfAll(Communicator& ranks, const std::function<absl::Status()>& work) {
  FTUNE_RETURN_IF_ERROR(ranks.Run(Call::Barrier()));
  const absl::Duration begin = MonotonicNow();
  FTUNE_RETURN_IF_ERROR(work());
  FTUNE_RETURN_IF_ERROR(ranks.Run(Call::Barrier()));
  return absl::ToDoubleSeconds(MonotonicNow() - begin);
}

}  // namespace

absl::StatusOr<LinkModel> MeasureDisk(Communicator& ranks, const std::filesystem::path& folder) {
  CpuBackend backend({.threads = 1});
  const std::array<Tensor, 2> memory = {backend.Allocate(DType::kU8, 1, kPieceBytes, Category::kBuffers),
                                        backend.Allocate(DType::kU8, 1, kPieceBytes, Category::kBuffers)};
  // Bytes that a disk or a file system cannot make smaller.
  std::mt19937_64 random(static_cast<uint64_t>(ranks.rank()));
  for (const Tensor& piece : memory) {
    const std::span<uint64_t> words(reinterpret_cast<uint64_t*>(piece.bytes()),
                                    static_cast<size_t>(kPieceBytes) / sizeof(uint64_t));
    std::generate(words.begin(), words.end(), std::ref(random));
  }
  FTUNE_ASSIGN_OR_RETURN(
      const std::unique_ptr<AsyncFile> file,
      AsyncFile::Create({.folder = folder, .bytes = kPieces * kPieceBytes, .content = "the bench's pieces"}));
  FTUNE_ASSIGN_OR_RETURN(const double large, SecondsOfAll(ranks, [&] { return VisitPieces(*file, memory); }));
  FTUNE_ASSIGN_OR_RETURN(const double small,
                         SecondsOfAll(ranks, [&] { return VisitSmall(*file, memory[0]); }));
  const double bytes = 2.0 * static_cast<double>(kPieces * kPieceBytes) * ranks.size();
  return LinkModel{.latency = small / 2, .bandwidth = bytes / large};
}

}  // namespace ftune
