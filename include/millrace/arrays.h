// Rows of arrays: in memory, or in .npy files that are mapped. Sample i has row i of each array.
//
// Rows are only copied, by the loader's threads, straight into the batch. Files may be larger than memory;
// one that is cut short while it is read is an Error(corrupt_data) with its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/dataset.h"
#include "millrace/dtype.h"
#include "millrace/export.h"

namespace millrace {

// An array with samples along its first dimension. `strides`: in bytes, one for each dimension; empty: dense,
// the last index fastest. `owner` keeps the memory; null: the caller does.
// Requires: memory that stays, and holds all rows, for as long as any loader reads it.
struct Array {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  std::shared_ptr<const void> owner{};
  std::vector<int64_t> strides{};
};

// The number of samples of `shape` that `values` values are. Throws Error(invalid_argument) for negative
// sides, and for a sample of more bytes than there are addresses.
MILLRACE_API int64_t whole_samples(size_t values, const std::vector<int64_t>& shape);

// Dense, of a vector that the dataset keeps, [samples, shape...]. `shape`: of one sample; empty: a number.
// Throws what whole_samples() throws.
// Requires: as many values as whole samples have; values left over are not read.
template <class T>
Array array_of(std::string name, std::vector<T> values, std::vector<int64_t> shape = {}) {
  auto kept = std::make_shared<const std::vector<T>>(std::move(values));
  shape.insert(shape.begin(), whole_samples(kept->size(), shape));
  return {std::move(name), DTypeOf<T>::value, std::move(shape), kept->data(), kept, {}};
}

// Maps a .npy file (versions 1 to 3, C or Fortran order, little-endian). Throws Error(not_found), or
// Error(corrupt_data) for a file that is not one, is shorter than its header says, or has elements without a
// DType.
MILLRACE_API Array open_npy(const std::string& path, std::string name);

// A dataset with a field for each array, of its name, type and shape. Throws Error(invalid_argument) where
// what it requires does not hold.
// Requires: one array at least; names that differ; arrays of one length; as many strides as dimensions, or
// none.
MILLRACE_API Dataset array_rows(std::vector<Array> arrays);

}  // namespace millrace
