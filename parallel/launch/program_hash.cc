#include "parallel/launch/program_hash.h"

#include "absl/strings/str_cat.h"
#include "base/mapped_file.h"
#include "base/xxh3_stream.h"

namespace ftune {

std::string ProgramHash() {
  const absl::StatusOr<MappedFile> program = MappedFile::Open("/proc/self/exe");
  return program.ok() ? absl::StrCat(absl::Hex(Xxh3Of(program->text()), absl::kZeroPad16)) : "";
}

}  // namespace ftune
