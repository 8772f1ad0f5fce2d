// The header of a .npy file: what its elements are, how they lie, and where they begin.
//
// Versions 1 to 3 of numpy's format, little-endian. Reads nothing but the bytes that it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/dtype.h"

namespace millrace::api {

struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  bool fortran = false;  // the first index is the fastest
  size_t begin = 0;      // of the elements, in the file
};

bool is_npy(std::span<const uint8_t> file);  // by its first bytes

// `file`: all of it. Throws Error(corrupt_data) naming `path` if it is no .npy file, has elements without a
// DType, or is shorter than its header says.
NpyHeader read_npy_header(std::span<const uint8_t> file, const std::string& path);

}  // namespace millrace::api
