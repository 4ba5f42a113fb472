// Tokenizers to test with: of files, and of the fixtures in tests/golden/tokenizer.
#pragma once

#include <absl/strings/escaping.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {

inline std::unique_ptr<Tokenizer> Loaded(absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer) {
  REQUIRE_MESSAGE(tokenizer.ok(), std::string(tokenizer.status().message()));
  return *std::move(tokenizer);
}

inline nlohmann::json Fixture(const std::string& name) {
  auto fixture = ReadJsonFile(StrCat(FTUNE_SOURCE_DIR, "/tests/golden/tokenizer/", name, ".json"));
  REQUIRE_MESSAGE(fixture.ok(), std::string(fixture.status().message()));
  return *std::move(fixture);
}

// Writes the tokenizer.json or the SentencePiece model that a fixture holds.
inline void WriteFixture(const nlohmann::json& fixture, const TempFolder& folder) {
  if (fixture.contains("tokenizer")) {
    WriteBytes(folder / "tokenizer.json", fixture["tokenizer"].dump());
    return;
  }
  std::string model;
  REQUIRE(absl::Base64Unescape(fixture["model"].get<std::string>(), &model));
  WriteBytes(folder / "tokenizer.model", model);
}

inline std::unique_ptr<Tokenizer> LoadFixture(const nlohmann::json& fixture) {
  TempFolder folder;
  WriteFixture(fixture, folder);
  return Loaded(LoadTokenizer(folder.path()));
}

}  // namespace ftune
