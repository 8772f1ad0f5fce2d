// BatchMemory: fields over the memory of a batch, and memory for those that lie by themselves.
//
// Immutable; any thread. A field of less than core::kSmallFieldBytes gets memory of its own, so that keeping
// the labels of every batch does not keep every batch. Not so where batches lie in memory of the program's
// choice (LoaderOptions::memory): there everything comes from the source, which knows when a block can be
// used again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/batch_ring.h"
#include "loader/data_loader.h"
#include "millrace/batch.h"
#include "millrace/dataset.h"
#include "millrace/loader.h"

namespace millrace::api {

class BatchMemory {
 public:
  explicit BatchMemory(core::BlockSource source = {}) : source_(std::move(source)) {}

  // 64-byte aligned, not written to. Throws Error(system) when there is none.
  std::pair<void*, std::shared_ptr<void>> allocate(size_t bytes) const;
  // [rows, shape...], at `data`, which `owner` keeps.
  Field dense(const FieldSpec& spec, int64_t rows, void* data, const std::shared_ptr<void>& owner) const;
  // [rows, shape...] of whole numbers, copied.
  Field numbers(const FieldSpec& spec, std::span<const int64_t> values) const;
  Field labels(std::span<const int64_t> labels) const;  // "label"

 private:
  core::BlockSource source_;
};

std::shared_ptr<void> shared(core::Lease lease);

int64_t elements_of(const std::vector<int64_t>& shape);  // of one sample
size_t row_bytes(const FieldSpec& spec);                 // of a dense one
// Throws Error(invalid_argument) for no fields, no names, two of one name, or a negative side. `what`:
// "make_dataset()".
void check_fields(const std::vector<FieldSpec>& fields, const char* what);

core::BlockSource block_source(const MemorySource& source);  // empty for an empty one

}  // namespace millrace::api
