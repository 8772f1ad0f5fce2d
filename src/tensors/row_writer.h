// RowWriter: samples of a Python dataset, written into their batch one by one as they are produced.
//
// What torch's default_collate makes of a list of samples, made without the list: the first sample says how
// the batch looks (its tree of dicts, tuples and lists; each leaf's element type and shape), every leaf gets
// an array of `capacity` rows in the slot, and each sample is copied into its row. The sample can go at once,
// so its memory is used again for the next one. Leaves and containers: those of tensors/sample_tree.h.
// add() answers false for a sample that is anything else or not like the first; then nothing is lost: torch's
// own collate can be asked with what layout() describes as samples again. All calls need the GIL. Owned by
// one thread. Errors of Python are left set, and reported by throwing PythonError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/shared_ring.h"

struct _object;  // PyObject

namespace millrace::tensors {

struct PythonError {};  // a Python exception is set

class RowWriter {
 public:
  explicit RowWriter(const core::SharedRing& ring);  // which must outlive it
  ~RowWriter();
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  // A new batch of up to `capacity` rows in `slot`; the slot's first `reserved` bytes have memory.
  void begin(int slot, size_t reserved, int64_t capacity);
  bool add(_object* sample);

  int64_t rows() const;
  size_t used_bytes() const;
  size_t reserved_bytes() const;
  // How many different batches there were; layout() changes exactly when this does.
  int64_t layout_number() const;
  // New references. layout(): nested tuples ("dict", keys, children), ("tuple" or "list", children),
  // ("namedtuple", type, children),
  // ("field", kind, offset, number of the element type, sizes of a row) with kind "tensor", "array", a
  // numpy scalar type, float, int or bool, and ("objects", n, sequence: bool). objects(): the list of lists
  // that "objects" leaves number.
  _object* layout() const;
  _object* objects() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::tensors
