// For tests and benchmarks: many texts through one tokenizer in one process.
//
//   tokenize_lines TOKENIZER < texts
//     Each line is a JSON string; prints for each
//     {"ids": …, "special": …, "decoded": …, "plain": …, "streamed": …}.
//   tokenize_lines TOKENIZER N < texts
//     Encodes all of them N times with one thread; prints the processor seconds and the tokens of each time.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace ftune {
namespace {

using nlohmann::json;

std::string Compare(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.Encode(text).ids;
  std::string streamed;
  const auto decoder = tokenizer.MakeDecoder(true);
  for (const int32_t id : ids) streamed += decoder->Push(id);
  streamed += decoder->Finish();
  const json line = {{"ids", ids},
                     {"special", tokenizer.Encode(text, {.add_special_tokens = true}).ids},
                     {"decoded", tokenizer.Decode(ids, false)},
                     {"plain", tokenizer.Decode(ids, true)},
                     {"streamed", streamed}};
  return line.dump();
}

int Run(const char* path, int rounds) {
  const auto tokenizer = LoadTokenizer(path);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", std::string(tokenizer.status().message()).c_str());
    return 1;
  }
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) texts.push_back(json::parse(line).get<std::string>());
  for (int round = 0; round < rounds; ++round) {
    const std::clock_t start = std::clock();
    size_t tokens = 0;
    for (const std::string& text : texts) tokens += (*tokenizer)->Encode(text).ids.size();
    std::printf("%.6f %zu\n", static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, tokens);
  }
  if (rounds > 0) return 0;
  for (const std::string& text : texts) std::printf("%s\n", Compare(**tokenizer, text).c_str());
  return 0;
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return ftune::Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 0);
}
