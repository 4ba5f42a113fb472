#include "cmd/report/tensorboard/event.h"

#include <cstring>

namespace ftune::tensorboard {
namespace {

// https://protobuf.dev/programming-guides/encoding: fields, each a key (its number and its type) and a value.
class Message {
 public:
  Message& Varint(int field, uint64_t value) {
    AppendKey(field, /*type=*/0);
    AppendVarint(value);
    return *this;
  }
  Message& Double(int field, double value) {
    AppendKey(field, /*type=*/1);
    return AppendRaw(value);
  }
  Message& Bytes(int field, std::string_view value) {
    AppendKey(field, /*type=*/2);
    AppendVarint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& Float(int field, float value) {
    AppendKey(field, /*type=*/5);
    return AppendRaw(value);
  }
  Message& Nested(int field, const Message& message) { return Bytes(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void AppendKey(int field, int type) { AppendVarint(static_cast<uint64_t>(field) << 3 | type); }
  void AppendVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  // As it lies in memory: the format is little-endian, as all that ftune runs on.
  template <class Number>
  Message& AppendRaw(Number value) {
    char raw[sizeof(value)];
    std::memcpy(raw, &value, sizeof(value));
    bytes_.append(raw, sizeof(value));
    return *this;
  }

  std::string bytes_;
};

// Numbers of fields.
enum Event { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum Summary { kValue = 1 };
enum Value { kTag = 1, kSimpleValue = 2 };
enum SessionLog { kStatus = 1 };
constexpr uint64_t kStart = 1;  // of SessionLog.SessionStatus

Message EventAt(double wall_time, int64_t step) {
  Message event;
  event.Double(kWallTime, wall_time).Varint(kStep, static_cast<uint64_t>(step));
  return event;
}

}  // namespace

std::string VersionEvent(double wall_time) {
  return Message().Double(kWallTime, wall_time).Bytes(kFileVersion, "brain.Event:2").bytes();
}

std::string StartEvent(double wall_time, int64_t step) {
  return EventAt(wall_time, step).Nested(kSessionLog, Message().Varint(kStatus, kStart)).bytes();
}

std::string ScalarsEvent(double wall_time, int64_t step, const std::vector<Scalar>& scalars) {
  Message summary;
  for (const Scalar& scalar : scalars) {
    summary.Nested(kValue, Message().Bytes(kTag, scalar.tag).Float(kSimpleValue, scalar.value));
  }
  return EventAt(wall_time, step).Nested(kSummary, summary).bytes();
}

}  // namespace ftune::tensorboard
