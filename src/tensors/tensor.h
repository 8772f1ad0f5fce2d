// torch tensors over millrace's memory, and millrace's view of theirs, as Python objects.
//
// All need the GIL. The first two return a new reference to a torch.Tensor on the CPU, dense and row-major,
// at about 1 us.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "collate/row_gather.h"
#include "core/batch_ring.h"

struct _object;  // PyObject

namespace millrace::tensors {

// The tensor lives in the lease's memory; the lease ends when the tensor's last view dies, on whatever thread
// that is. Throws Error(invalid_argument) when the lease is smaller than the sizes need.
_object* tensor_from_lease(core::Lease lease, const std::vector<int64_t>& sizes, base::DType type);

// The parts of a batch in the memory of one lease, each a tensor of its own; the lease ends with the last of
// them.
struct LeasePart {
  size_t offset = 0;  // bytes
  std::vector<int64_t> sizes;
};
std::vector<_object*> tensors_from_lease(core::Lease lease, const std::vector<LeasePart>& parts,
                                         base::DType type);

// A field of a batch in memory that `keeper` keeps; `strides` are in elements, none for row-major. With
// `copy`, or when it is small (kSmallFieldBytes), the tensor is a copy in memory of its own.
struct TensorField {
  size_t offset = 0;  // bytes from `base`
  base::DType type = base::DType::u8;
  std::vector<int64_t> sizes, strides;
};
_object* tensor_over(const std::shared_ptr<const void>& keeper, uint8_t* base, const TensorField& field,
                     bool copy);

// The bytes of a tensor that have to be copied so that tensor_over() can make it again: its elements and the
// gaps between them, with the same strides. A tensor that uses less than a sixteenth of that span becomes
// row-major, in memory of this object. Else the memory is the tensor's. Throws Error(invalid_argument) for
// anything but a plain dense CPU tensor (see is_plain_tensor()).
class TensorSpan {
 public:
  explicit TensorSpan(_object* tensor);
  const TensorField& field() const { return field_; }  // the offset is the caller's to choose
  TensorField& field() { return field_; }
  const void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  // Copies the bytes into memory of this object's own, for callers that cannot keep the tensor's.
  void copy();
  bool is_copy() const { return copy_ != nullptr; }

 private:
  TensorField field_;
  const void* data_ = nullptr;
  size_t size_bytes_ = 0;
  std::unique_ptr<uint8_t[]> copy_;
};

// Whether a Python object is torch.Tensor itself, dense, on the CPU, without gradients, of an ordinary
// element type.
bool is_plain_tensor(_object* value);

// Memory of the tensor's own; `*data` is where to write, valid while the tensor lives.
_object* new_tensor(const std::vector<int64_t>& sizes, base::DType type, void** data);

// Where the rows (along the first dimension) of a strided CPU tensor lie at this moment: its owner may resize
// it or give it other memory. `base` is null when it has none. Throws Error(invalid_argument) for other
// tensors.
collate::RowTable tensor_rows(_object* tensor);

}  // namespace millrace::tensors
