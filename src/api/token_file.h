// TokenFile: a mapped file of token ids: .npy of one dimension, llm.c's .bin, or numbers and nothing else.
//
// What a file is, is told by its first bytes, as millrace.datasets.Tokens does. Immutable once opened; any
// thread. Readers of the ids must expect SIGBUS once another program cuts the file short (core/bus_guard.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/mapped_file.h"
#include "millrace/dtype.h"

namespace millrace::api {

struct TokenFile {
  std::shared_ptr<const io::MappedFile> file;
  DType dtype = DType::u16;
  const uint8_t* ids = nullptr;  // not always aligned for their type
  int64_t count = 0;             // at least 1
};

// `dtype`: of numbers and nothing else. Throws Error(not_found | system) for what cannot be opened;
// Error(corrupt_data) for an empty file, one that ends within an id, or before its header says; and
// Error(invalid_argument) for packed files, elements that are no ids, and more than one dimension.
TokenFile open_token_file(const std::string& path, DType dtype);

}  // namespace millrace::api
