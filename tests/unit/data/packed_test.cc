// Files packed with gzip and Zstandard.
#include <doctest/doctest.h>
#include <zlib.h>
#include <zstd.h>

#include "block_checks.h"
#include "files.h"

namespace ftune {
namespace {

using Strings = std::vector<std::string>;

std::string Gzip(std::string_view text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string Zstd(std::string_view text, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  if (window_log > 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  ZSTD_inBuffer in = {text.data(), text.size(), 0};
  ZSTD_outBuffer out = {packed.data(), packed.size(), 0};
  REQUIRE(ZSTD_compressStream2(context, &out, &in, ZSTD_e_continue) < 1 << 20);
  REQUIRE(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end) == 0);
  packed.resize(out.pos);
  ZSTD_freeCCtx(context);
  return packed;
}

ReadRows ReadBytes(const std::string& name, std::string_view bytes, size_t read_bytes = 1000) {
  const TempFolder folder;
  OpenOptions options;
  options.read_bytes = read_bytes;
  return ReadPath(folder.Write(name, bytes), options);
}

// 100 rows, with text that does not shrink to nothing.
std::string Rows() {
  std::string text;
  uint64_t state = 1;
  for (int i = 0; i < 100; ++i) {
    text += "{\"t\":\"";
    for (int j = 0; j < 50; ++j)
      text += static_cast<char>('a' + (state = state * 6364136223846793005 + 1) % 26);
    text += "\"}\n";
  }
  return text;
}

TEST_CASE("packed files are told by their first bytes") {
  const Strings rows = {R"({"a":1})", R"({"a":2})"};
  const std::string text = "{\"a\":1}\n{\"a\":2}\n";
  for (const std::string& packed : {Gzip(text), Zstd(text)}) {
    CHECK(ReadBytes("a.jsonl", packed).rows == rows);
    CHECK(ReadBytes("a.jsonl.gz", packed, 1).rows == rows);
    CHECK(ReadBytes("a.zst", packed).rows == rows);
  }
  CHECK(ReadBytes("a.json.gz", Gzip("[{\"a\":1},{\"a\":2}]")).rows == rows);
  CHECK(ReadBytes("a.csv.zst", Zstd("a\n1\n2\n")).rows == Strings{R"({"a":"1"})", R"({"a":"2"})"});
  CHECK(ReadBytes("a.tsv.gz", Gzip("a\tb\n1\t2\n")).rows == Strings{R"({"a":"1","b":"2"})"});
  CHECK(ReadBytes("a.txt.gz", Gzip("one\ntwo")).rows == Strings{R"({"text":"one\ntwo"})"});
  CHECK(ReadBytes("a.jsonl.gz", text).rows == rows);  // the name alone packs nothing
}

TEST_CASE("several members and frames, and what may stand behind them") {
  const std::string text = Rows();
  const std::string half = text.substr(0, 2000), rest = text.substr(2000);
  const Strings rows = ReadBytes("a.jsonl", text).rows;
  REQUIRE(rows.size() == 100);
  CHECK(ReadBytes("a.jsonl", Gzip(half) + Gzip("") + Gzip(rest)).rows == rows);
  CHECK(ReadBytes("a.jsonl", Gzip(half) + Gzip(rest), 1).rows == rows);
  CHECK(ReadBytes("a.jsonl", Gzip(text) + std::string(1000, '\0')).rows == rows);
  CHECK(ReadBytes("a.jsonl", Zstd(half) + Zstd("") + Zstd(rest)).rows == rows);
  const std::string skipped("\x53\x2A\x4D\x18\x03\0\0\0abc", 11);
  CHECK(ReadBytes("a.jsonl", skipped + Zstd(half) + skipped + Zstd(rest), 1).rows == rows);

  CheckDataError(ReadBytes("a.jsonl", Gzip(text) + "garbage").error, "something stands behind its end", 0);
  CheckDataError(ReadBytes("a.jsonl", Gzip(text) + std::string("\0\0x", 3)).error, "something stands behind",
                 0);
  CheckDataError(ReadBytes("a.jsonl", Zstd(text) + "garbage").error, "Zstandard data that is damaged", 0);
}

TEST_CASE("data that is cut off anywhere is an error") {
  const std::string text = Rows();
  const std::string gzip = Gzip(text), zstd = Zstd(text);
  for (size_t size = 4; size < gzip.size(); size += size < 40 || size + 40 > gzip.size() ? 1 : 97) {
    CheckDataError(ReadBytes("a.jsonl", gzip.substr(0, size)).error, "gzip data that is cut off", 0);
  }
  for (size_t size = 4; size < zstd.size(); size += size < 40 || size + 40 > zstd.size() ? 1 : 97) {
    CheckDataError(ReadBytes("a.jsonl", zstd.substr(0, size)).error, "Zstandard data that is cut off", 0);
  }
  CheckDataError(ReadBytes("a.txt", gzip.substr(0, 1000)).error, "gzip data that is cut off", 0);
  CheckDataError(ReadBytes("a.jsonl", gzip + gzip.substr(0, 100)).error, "gzip data that is cut off", 0);
}

TEST_CASE("data that is damaged is an error") {
  const std::string text = Rows();
  for (std::string packed : {Gzip(text), Zstd(text)}) {
    std::string checksum = packed;
    checksum[checksum.size() - (packed[0] == '\x1F' ? 8 : 4)] ^= 1;
    CheckDataError(ReadBytes("a.jsonl", checksum).error, "damaged", 0);
    for (size_t at = 20; at < packed.size(); at += 211) {
      std::string bytes = packed;
      bytes[at] ^= 0x55;
      CHECK_FALSE(ReadBytes("a.jsonl", bytes).error.ok());
    }
  }
}

TEST_CASE("what is packed twice, empty or wants too much memory") {
  CheckDataError(ReadBytes("a.jsonl.gz", Gzip(Gzip("{}"))).error, "a packed file within a packed file", 0);
  CheckDataError(ReadBytes("a.jsonl.gz", Gzip("PAR1")).error, "a packed file within a packed file", 0);
  CheckDataError(ReadBytes("a.jsonl.gz", Gzip("")).error, "an empty file", 0);
  CheckDataError(ReadBytes("a.jsonl.zst", Zstd("")).error, "an empty file", 0);
  CheckDataError(ReadBytes("a.jsonl.gz", Gzip(std::string("\xFF\xFE{\0", 4))).error, "UTF-16", 0);
  CheckDataError(ReadBytes("a.jsonl.zst", Zstd("{\"a\":1}\n", 28)).error, "takes too much memory", 0);
  CHECK(ReadBytes("a.jsonl.zst", Zstd("{\"a\":1}\n", 27)).error.ok());
}

TEST_CASE("errors in packed rows name the line") {
  CheckDataError(ReadBytes("a.jsonl.gz", Gzip("{}\n\n{\"a\": }\n")).error, "not valid JSON at column 7", 3);
}

}  // namespace
}  // namespace ftune
