// The border between ftune and ftune-arrow.so, which links Apache Arrow and is loaded when a Parquet or Arrow
// file is opened. Plain C on both sides: no exception, no C++ type and no ownership but that of a handle
// crosses it. Any change of it changes the version.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum { kFtuneArrowAbi = 1 };

enum FtuneArrowFormat {
  kFtuneArrowParquet = 1,
  kFtuneArrowFile = 2,    // IPC file, Feather 2
  kFtuneArrowStream = 3,  // IPC stream
};

// What went wrong, filled in by the plugin; texts end with NUL and are shortened to fit.
struct FtuneArrowError {
  int64_t row;         // 1-based; 0: the file as a whole
  char column[256];    // "messages.content"; empty where it is not about one
  char message[1024];  // one line
};

// Whole rows. `bytes` has one JSON object a row; row i of them is bytes [i == 0 ? 0 : ends[i - 1], ends[i]),
// its LF included, and is row first_row + i of the file, counted from 1. Valid until the next call on the
// handle.
struct FtuneArrowRows {
  const char* bytes;
  const size_t* ends;
  size_t count;
  int64_t first_row;
  const FtuneArrowError* bad;  // of rows with a value that JSON does not have; their text is empty
  size_t bad_count;
};

struct FtuneArrowHandle;

struct FtuneArrowPlugin {
  int32_t abi;  // kFtuneArrowAbi of the plugin's build; nothing else may be read where it differs
  // Null where it fails. The file is read as far as its schema.
  FtuneArrowHandle* (*open)(const char* path, FtuneArrowFormat format, FtuneArrowError* error);
  // 1: rows, at least one; 0: the end; -1: an error, after which only close may be called. Rows are added
  // until they have `enough_bytes` of text or are `enough_rows`.
  int32_t (*next)(FtuneArrowHandle* handle, size_t enough_bytes, size_t enough_rows, FtuneArrowRows* rows,
                  FtuneArrowError* error);
  void (*close)(FtuneArrowHandle* handle);
};

// The one symbol of the plugin; the object lives as long as the process.
typedef const FtuneArrowPlugin* (*FtuneArrowEntry)(void);
}

inline constexpr char kFtuneArrowEntryName[] = "ftune_arrow_plugin";
