#include "parallel/launch/program_copy.h"

#include <poll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/mapped_file.h"
#include "base/monotonic_clock.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "parallel/launch/command_process.h"
#include "parallel/launch/program_hash.h"
#include "parallel/launch/supervisor.h"
#include "parallel/launch/tar_stream.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLongest = absl::Minutes(10);
constexpr absl::Duration kForWords = absl::Seconds(2);
constexpr int kTickMilliseconds = 100;
constexpr int kMode = 0700;
// What the other end says, each in a line of its own.
constexpr char kWants[] = "ftune wants the program";
constexpr char kHas[] = "ftune has the program: ";
// A folder that was there before, of another launcher that does the same, is as good.
constexpr char kScript[] = R"sh(
set -e
umask 077
machine=$(uname -m)
if [ "$machine" != "$2" ]; then
  echo "its processor is of another kind ($machine) than the one that this ftune is made for ($2)" >&2
  exit 3
fi
case "$XDG_CACHE_HOME" in
  /*) cache=$XDG_CACHE_HOME ;;
  *) cache=$HOME/.cache ;;
esac
folder=$cache/ftune/programs/$1
if [ ! -x "$folder/ftune" ]; then
  mkdir -p "$folder.$$"
  trap 'rm -rf "$folder.$$"' EXIT
  echo "$3"
  tar -xof - -C "$folder.$$"
  mv -T "$folder.$$" "$folder" || [ -x "$folder/ftune" ]
fi
echo "$4$folder/ftune"
)sh";

std::string Machine() {
  utsname names = {};
  uname(&names);
  return names.machine;
}

struct Part {
  std::string name;
  MappedFile file;
};

absl::StatusOr<std::vector<Part>> Parts() {
  std::vector<Part> parts;
  FTUNE_ASSIGN_OR_RETURN(MappedFile program, MappedFile::Open("/proc/self/exe"));
  parts.push_back({"ftune", std::move(program)});
  std::error_code none;
  const fs::path folder = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const char* beside : {"libftune_network.so", "ftune-arrow.so"}) {
    if (!Exists(folder / beside)) continue;  // then it is not here either
    FTUNE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(folder / beside));
    parts.push_back({beside, std::move(file)});
  }
  return parts;
}

// One host's, by a thread of its own.
class Copy {
 public:
  Copy(CommandProcess process, const std::vector<Part>& parts)
      : process_(std::move(process)),
        input_(process_.TakeInput()),
        output_(process_.TakeOutput()),
        parts_(parts),
        until_(MonotonicNow() + kLongest) {}

  absl::StatusOr<std::string> Run() {
    while (true) {
      const std::optional<std::string> line = NextLine();
      if (!line) return WhyNot();
      if (line->starts_with(kHas)) return line->substr(std::size(kHas) - 1);
      if (*line == kWants) Send();
    }
  }

 private:
  // Nothing where none comes any more.
  std::optional<std::string> NextLine() {
    while (MonotonicNow() < until_) {
      const size_t end = said_.find('\n');
      if (end != std::string::npos) {
        std::string line = said_.substr(0, end);
        said_.erase(0, end + 1);
        return line;
      }
      pollfd wait = {.fd = output_.get(), .events = POLLIN};
      if (poll(&wait, 1, kTickMilliseconds) <= 0) continue;
      char bytes[4096];
      const ssize_t count = read(output_.get(), bytes, sizeof(bytes));
      if (count == 0 || (count < 0 && errno != EINTR)) return std::nullopt;
      if (count > 0) said_.append(bytes, static_cast<size_t>(count));
    }
    return std::nullopt;
  }

  void Send() {
    for (const Part& part : parts_) {
      const std::string_view bytes = part.file.text();
      const auto size = static_cast<int64_t>(bytes.size());
      const std::string fill(static_cast<size_t>((kTarBlock - size % kTarBlock) % kTarBlock), '\0');
      if (!Write(TarHeader(part.name, size, kMode)) || !Write(bytes) || !Write(fill)) return;
    }
    Write(TarEnd());
    input_ = Descriptor();
  }

  // False where the other end takes no more: it says why.
  bool Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = write(input_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  absl::Status WhyNot() {
    input_ = Descriptor();
    const std::optional<int> status = process_.Wait(kForWords);
    std::string why = process_.Complaint();
    if (why.empty())
      why = status ? DescribeEnd(*status) : StrCat("not within ", absl::FormatDuration(kLongest));
    return UserError(ExitCode::kRankFailed, {.message = StrCat("ftune cannot be copied there: ", why)});
  }

  CommandProcess process_;
  Descriptor input_, output_;
  const std::vector<Part>& parts_;
  absl::Duration until_;
  std::string said_;
};

}  // namespace

std::vector<std::string> CopyCommand() {
  return {"sh", "-c", kScript, "sh", ProgramHash(), Machine(), kWants, kHas};
}

std::vector<absl::StatusOr<std::string>> CopyProgram(const std::vector<std::vector<std::string>>& commands,
                                                     int at_once) {
  const absl::StatusOr<std::vector<Part>> parts = Parts();
  if (!parts.ok()) return std::vector<absl::StatusOr<std::string>>(commands.size(), parts.status());
  std::vector<absl::StatusOr<std::string>> results(commands.size());
  std::counting_semaphore<> places(at_once);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < commands.size(); ++i) {
    places.acquire();
    absl::StatusOr<CommandProcess> process = CommandProcess::Start(commands[i]);
    if (!process.ok()) {
      results[i] = process.status();
      places.release();
      continue;
    }
    threads.push_back(
        QuietThread([&result = results[i], &places, copy = Copy(*std::move(process), *parts)]() mutable {
          result = copy.Run();
          places.release();
        }));
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace ftune
