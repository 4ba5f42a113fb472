#include "parallel/launch/frame.h"

#include <doctest/doctest.h>

namespace ftune {
namespace {

const Frame kHello = {.kind = "hello", .facts = {{"rank", 3}}, .bytes = std::string("a\0b\n", 4)};

Frame Taken(FrameReader& reader) {
  const absl::StatusOr<std::optional<Frame>> frame = reader.Next();
  REQUIRE(frame.ok());
  REQUIRE(frame->has_value());
  return **frame;
}

TEST_CASE("frames come out as they went in, whatever the pieces") {
  const std::string wire = EncodeFrame(kHello) + EncodeFrame({.kind = "alive"}) + EncodeFrame(kHello);
  for (const size_t piece : {size_t{1}, size_t{7}, wire.size()}) {
    FrameReader reader(/*awaits_begin=*/false);
    std::vector<Frame> frames;
    for (size_t at = 0; at < wire.size(); at += piece) {
      reader.Add(std::string_view(wire).substr(at, piece));
      while (true) {
        const absl::StatusOr<std::optional<Frame>> frame = reader.Next();
        REQUIRE(frame.ok());
        if (!*frame) break;
        frames.push_back(**frame);
      }
    }
    REQUIRE(frames.size() == 3);
    for (const int i : {0, 2}) {
      CHECK(frames[i].kind == "hello");
      CHECK(frames[i].facts == kHello.facts);
      CHECK(frames[i].bytes == kHello.bytes);
    }
    CHECK(frames[1].kind == "alive");
    CHECK(frames[1].bytes.empty());
  }
}

TEST_CASE("what a login shell prints comes before the frames") {
  const std::string noise = "Welcome to node1!\nftune-agent is not here\n";
  FrameReader reader(/*awaits_begin=*/true);
  for (const char c : noise + std::string(kFramesBegin) + EncodeFrame(kHello)) reader.Add({&c, 1});
  CHECK(Taken(reader).bytes == kHello.bytes);
  CHECK(reader.Noise() == noise);

  FrameReader waiting(/*awaits_begin=*/true);
  waiting.Add("bash: ftune: command not found");
  const absl::StatusOr<std::optional<Frame>> none = waiting.Next();
  REQUIRE(none.ok());
  CHECK(!none->has_value());
  CHECK(waiting.Noise() == "bash: ftune: command not found");
}

TEST_CASE("what is no stream of frames is refused, and needs no memory") {
  const auto refused = [](const std::string& wire) {
    FrameReader reader(/*awaits_begin=*/false);
    reader.Add(wire);
    return !reader.Next().ok();
  };
  const auto with_length = [](uint32_t facts, uint32_t bytes, const std::string& rest) {
    const uint32_t lengths[] = {facts, bytes};
    return std::string(reinterpret_cast<const char*>(lengths), sizeof(lengths)) + rest;
  };
  CHECK(refused("HTTP/1.1 400 Bad Request\r\n"));
  CHECK(refused(with_length(0xffffffff, 0, "")));
  CHECK(refused(with_length(2, 0xffffffff, "{}")));
  CHECK(refused(with_length(2, 0, "{}")));
  CHECK(refused(with_length(2, 0, "[]")));
  CHECK(refused(with_length(3, 0, "{x}")));
  CHECK(refused(with_length(10, 0, "{\"kind\":1}")));
  CHECK(!refused(with_length(12, 0, "{\"kind\":\"x\"}")));

  FrameReader endless(/*awaits_begin=*/true);
  endless.Add(std::string(1 << 20, 'y'));
  CHECK(!endless.Next().ok());
}

}  // namespace
}  // namespace ftune
