// Batch and Field: what a Loader gives. Their memory is leased from the loader's ring.
//
// Copies are cheap and share the memory, which goes back to the ring when the last Batch, Field or tensor
// over it dies, on whatever thread; so a batch may be kept for as long as one likes, also beyond the loader.
// The values are yours to change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/dtype.h"
#include "millrace/export.h"

namespace millrace {

class MILLRACE_API Field {
 public:
  Field() = default;
  Field(std::string name, DType dtype, std::vector<int64_t> shape, void* data, std::shared_ptr<void> owner,
        std::vector<int64_t> offsets = {});

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }  // [rows, ...], dense, the last index fastest
  int64_t elements() const;
  size_t size_bytes() const { return static_cast<size_t>(elements()) * dtype_bytes(dtype_); }
  void* data() const { return data_; }

  // Its elements. Throws Error(invalid_argument) when T is not the field's type, or there is no memory.
  template <class T>
  std::span<T> as() const {
    check(DTypeOf<T>::value);
    return {static_cast<T*>(data_), static_cast<size_t>(elements())};
  }

  // Of ragged fields, rows + 1 numbers: sample i has rows offsets[i] .. offsets[i + 1] - 1 of shape()[0].
  bool ragged() const { return !offsets_.empty(); }
  const std::vector<int64_t>& offsets() const { return offsets_; }

  // Holding it keeps the memory.
  const std::shared_ptr<void>& owner() const { return owner_; }

  // Throws Error(invalid_argument), with the caller's name, for Field() and for a field that was moved from.
  void require_memory(const char* caller) const;

 private:
  void check(DType type) const;

  std::string name_;
  DType dtype_ = DType::f32;
  std::vector<int64_t> shape_;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
  std::vector<int64_t> offsets_;
};

class MILLRACE_API Batch {
 public:
  Batch() = default;
  Batch(int64_t number, std::vector<Field> fields, std::vector<int64_t> indices);

  int64_t number() const { return number_; }                              // in its epoch, from 0 on
  int64_t size() const { return static_cast<int64_t>(indices_.size()); }  // samples
  const std::vector<Field>& fields() const { return fields_; }
  // Throws Error(invalid_argument) naming the fields that there are, or that the batch is empty.
  const Field& operator[](std::string_view name) const;
  // Which sample of the dataset became each row; where samples are left out, the one that took the place.
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  int64_t number_ = 0;
  std::vector<Field> fields_;
  std::vector<int64_t> indices_;
};

}  // namespace millrace
