#include "torch_bridge/tensor.h"

#include <pybind11/pybind11.h>  // before torch's header, so that both see this pybind11

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <string>

#include "base/checked.h"

namespace millrace {
namespace {

at::ScalarType scalar_type(DType type) {
  switch (type) {
    case DType::u8: return at::kByte;
    case DType::i64: return at::kLong;
    case DType::f16: return at::kHalf;
    case DType::bf16: return at::kBFloat16;
    case DType::f32: return at::kFloat;
    case DType::f64: return at::kDouble;
    case DType::b8: return at::kBool;
    case DType::i8: return at::kChar;
    case DType::i16: return at::kShort;
    case DType::i32: return at::kInt;
    case DType::u16: return at::kUInt16;
    case DType::u32: return at::kUInt32;
    case DType::u64: return at::kUInt64;
    case DType::c64: return at::kComplexFloat;
    case DType::c128: return at::kComplexDouble;
  }
  throw Error(ErrorKind::invalid_argument, "unknown element type");
}

size_t bytes_of(const std::vector<int64_t>& sizes, DType type) {
  size_t bytes = dtype_bytes(type);
  for (const int64_t size : sizes) bytes = checked_mul(bytes, static_cast<size_t>(size), "batch");
  return bytes;
}

}  // namespace

PyObject* tensor_from_lease(Lease lease, const std::vector<int64_t>& sizes, DType type) {
  const size_t needed = bytes_of(sizes, type);
  if (lease.size_bytes() < needed)
    throw Error(ErrorKind::invalid_argument, "a slot of " + std::to_string(lease.size_bytes()) + " bytes cannot hold a tensor of " +
                                                 std::to_string(needed) + " bytes");
  auto held = std::make_unique<Lease>(std::move(lease));
  // The deleter owns the lease; it runs without the GIL, on any thread.
  at::Tensor tensor = at::from_blob(held->data(), sizes, [lease_ptr = held.get()](void*) { delete lease_ptr; },
                                    at::TensorOptions().dtype(scalar_type(type)));
  held.release();
  return THPVariable_Wrap(tensor);
}

PyObject* new_tensor(const std::vector<int64_t>& sizes, DType type, void** data) {
  at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(scalar_type(type)));
  *data = tensor.data_ptr();
  return THPVariable_Wrap(tensor);
}

RowTable tensor_rows(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const auto item = static_cast<size_t>(tensor.itemsize());
  const size_t end = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), item,
                                                      static_cast<size_t>(tensor.storage_offset()));
  const bool whole = tensor.numel() == 0 || end <= tensor.storage().nbytes();
  return {whole ? static_cast<const uint8_t*>(tensor.const_data_ptr()) : nullptr, tensor.size(0),
          tensor.stride(0) * static_cast<int64_t>(item)};
}

}  // namespace millrace
