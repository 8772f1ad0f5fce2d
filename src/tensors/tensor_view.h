// TensorView: a tensor in the host's memory, as numbers: where it lies and how. And tensors made of such.
//
// All need the GIL.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "tensors/dlpack.h"

struct _object;  // PyObject

namespace millrace::tensors {

// Borrowed from a tensor; good until the tensor is changed or dropped.
struct TensorView {
  uint8_t* data = nullptr;                  // may be null, and is without elements
  std::span<const int64_t> sizes, strides;  // strides in elements
  base::DType type = base::DType::u8;

  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements()) * base::dtype_bytes(type); }
  bool is_contiguous() const;  // row-major; the stride of a size of 1 means nothing
  bool has_sizes(std::span<const int64_t> other) const { return std::ranges::equal(sizes, other); }
  // Writes the elements to `out`, row-major.
  void copy_to(uint8_t* out) const;
};

// Reads any tensor of an ordinary element type on the host. False for others; no error of Python's is left.
bool read_tensor(_object* tensor, TensorView& view);

// Reads torch.Tensor itself (no derived class), dense, on the CPU, without gradients, of an ordinary element
// type, with memory that holds its values as they are. False for everything else. Some 50 ns; for floats,
// which may ask for gradients or have their sign turned lazily, twice that.
bool read_plain(_object* value, TensorView& view);

// The same in some 30 ns, where torch lets it (tensor_fields.h); of a value that follows others like it, of
// which read_plain() has read one.
bool read_plain_again(_object* value, TensorView& view);

// Of a tensor without gradients: whether its memory holds the values as they are, with no sign to be turned
// or number to be conjugated.
bool holds_values(_object* tensor, const TensorView& view);

// A new reference to a tensor over `data`; `strides` in elements, none for row-major. The keeper ends with
// the tensor's memory: on any thread, with the GIL or without. Throws pybind11::error_already_set.
_object* make_tensor(void* data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                     base::DType type, std::shared_ptr<const void> keeper,
                     dlpack::Device device = dlpack::kHost);

// Where DLPack says that a tensor lies, of any device. Throws pybind11::error_already_set.
dlpack::Device exchange_device(_object* tensor);

// A new reference to a tensor over memory of its own, 64-byte aligned; `*data` is where to write, valid while
// the tensor lives. Throws Error(system, ENOMEM) when there is none.
_object* make_tensor(std::span<const int64_t> sizes, base::DType type, void** data);

}  // namespace millrace::tensors
