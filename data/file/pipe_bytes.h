// A pipe or standard input, read as its bytes come: once, and without an end as long as somebody may write.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/file/byte_source.h"

namespace ftune {

// Standard input ("-"), or what is at the path and is no regular file or folder. Nothing is kept of it.
bool IsPipe(const std::string& path);

class PipeBytes : public ByteSource {
 public:
  // Waits for no writer.
  static absl::StatusOr<std::shared_ptr<PipeBytes>> Open(const std::string& path);
  PipeBytes(const PipeBytes&) = delete;
  PipeBytes& operator=(const PipeBytes&) = delete;
  ~PipeBytes() override;

  // As errors name it.
  const std::string& name() const { return name_; }

  // Waits until there is something: a first writer, bytes, or the last writer's end. Cancelled (absl) once
  // Interrupt was called.
  absl::StatusOr<size_t> Read(char* to, size_t size) override;
  // From any thread, and a signal handler: ends the waiting, for good.
  void Interrupt();

 private:
  PipeBytes(std::string name, int fd, int wake) : name_(std::move(name)), fd_(fd), wake_(wake) {}

  std::string name_;
  int fd_;
  int wake_;  // an eventfd
};

}  // namespace ftune
