#include "torch_bridge/tensor.h"

#include <pybind11/pybind11.h>  // before torch's header, so that both see this pybind11

#include <ATen/EmptyTensor.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>

#include "base/checked.h"
#include "core/numa.h"
#include "torch_bridge/scalar_type.h"

namespace millrace::torch_bridge {
namespace {

// A view that leaves more of its memory unused than this is not worth its strides.
constexpr int64_t kMostGaps = 16;

// Element types that are nothing but numbers side by side.
bool plain_element(at::ScalarType type) {
  return std::any_of(std::begin(base::kDTypes), std::end(base::kDTypes),
                     [type](base::DType known) { return scalar_type(known) == type; });
}

size_t bytes_of(const std::vector<int64_t>& sizes, base::DType type) {
  size_t bytes = base::dtype_bytes(type);
  for (const int64_t size : sizes) bytes = base::checked_mul(bytes, static_cast<size_t>(size), "batch");
  return bytes;
}

}  // namespace

PyObject* tensor_from_lease(core::Lease lease, const std::vector<int64_t>& sizes, base::DType type) {
  const size_t needed = bytes_of(sizes, type);
  if (lease.size_bytes() < needed)
    throw Error(ErrorKind::invalid_argument, "a slot of " + std::to_string(lease.size_bytes()) +
                                                 " bytes cannot hold a tensor of " + std::to_string(needed) +
                                                 " bytes");
  if (const auto owner = lease.owner()) {
    at::Tensor tensor = at::empty({0}, at::TensorOptions().dtype(scalar_type(type)));
    tensor.set_(static_cast<at::Tensor*>(owner.get())->storage(), 0, sizes);
    return THPVariable_Wrap(tensor);
  }
  auto held = std::make_unique<core::Lease>(std::move(lease));
  // The deleter owns the lease; it runs without the GIL, on any thread.
  at::Tensor tensor = at::from_blob(
      held->data(), sizes, [lease_ptr = held.get()](void*) { delete lease_ptr; },
      at::TensorOptions().dtype(scalar_type(type)));
  held.release();
  return THPVariable_Wrap(tensor);
}

std::vector<PyObject*> tensors_from_lease(core::Lease lease, const std::vector<LeasePart>& parts,
                                          base::DType type) {
  for (const LeasePart& part : parts)
    if (part.offset > lease.size_bytes() || lease.size_bytes() - part.offset < bytes_of(part.sizes, type))
      throw Error(ErrorKind::invalid_argument, "a part of a batch lies outside of its slot");
  const auto options = at::TensorOptions().dtype(scalar_type(type));
  const auto held = std::make_shared<core::Lease>(std::move(lease));
  const auto owner = held->owner();
  std::vector<PyObject*> tensors;
  for (const LeasePart& part : parts) {
    at::Tensor tensor;
    if (owner) {
      tensor = at::empty({0}, options);
      tensor.set_(static_cast<at::Tensor*>(owner.get())->storage(),
                  static_cast<int64_t>(part.offset / base::dtype_bytes(type)), part.sizes);
    } else {
      tensor = at::from_blob(held->data() + part.offset, part.sizes, [held](void*) {}, options);
    }
    tensors.push_back(THPVariable_Wrap(tensor));
  }
  return tensors;
}

core::BlockSource torch_blocks(bool page_locked, int node) {
  return [page_locked, node](size_t bytes) {
    const core::NearNode near(node);
    at::Tensor memory;
    for (bool locked = page_locked;; locked = false) {
      try {
        memory = at::empty({static_cast<int64_t>(bytes)},
                           at::TensorOptions().dtype(at::kByte).pinned_memory(locked));
      } catch (const c10::Error&) {  // of page-locked memory there may be less
      }
      if (memory.defined() || !locked) break;
    }
    if (!memory.defined())
      throw Error(
          ErrorKind::system,
          "there is no memory for a batch of " + std::to_string(bytes) + " bytes; use a smaller batch_size",
          {}, -1, ENOMEM);
    auto owner = std::make_shared<at::Tensor>(std::move(memory));
    return core::MemoryBlock(static_cast<uint8_t*>(owner->data_ptr()), bytes, owner);
  };
}

PyObject* tensor_over(const std::shared_ptr<const void>& keeper, uint8_t* base, const TensorField& field,
                      bool copy) {
  const auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(field.type));
  const size_t bytes = at::detail::computeStorageNbytesContiguous(field.sizes, options.dtype().itemsize());
  uint8_t* data = base + field.offset;
  if (field.strides.empty() && (copy || bytes < core::kSmallFieldBytes)) {
    at::Tensor tensor = at::empty(field.sizes, options);
    std::memcpy(tensor.data_ptr(), data, bytes);
    return THPVariable_Wrap(tensor);
  }
  // The deleter is dropped, and with it the lease, when the storage goes: on any thread, without the GIL.
  const auto release = [keeper = keeper](void*) {};
  at::Tensor view = field.strides.empty() ? at::from_blob(data, field.sizes, release, options)
                                          : at::from_blob(data, field.sizes, field.strides, release, options);
  return THPVariable_Wrap(copy ? view.clone() : view);
}

bool is_plain_tensor(PyObject* value) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != THPVariableClass) return false;
  const at::Tensor& t = THPVariable_Unpack(value);
  return t.defined() && t.layout() == at::kStrided && t.device().is_cpu() && !t.requires_grad() &&
         !t.is_nested() && !t.is_conj() && !t.is_neg() && !t.unsafeGetTensorImpl()->is_python_dispatch() &&
         plain_element(t.scalar_type());
}

class HeldTensor {
 public:
  at::Tensor tensor;
};

TensorSpan::TensorSpan(PyObject* value) : held_(std::make_unique<HeldTensor>()) {
  if (!is_plain_tensor(value)) throw Error(ErrorKind::invalid_argument, "not a plain dense CPU tensor");
  at::Tensor& t = held_->tensor;
  t = THPVariable_Unpack(value);
  int64_t span = t.numel() > 0 ? 1 : 0;
  for (int64_t d = 0; span > 0 && d < t.dim(); ++d) span += (t.size(d) - 1) * t.stride(d);
  if (!t.is_contiguous() && span > kMostGaps * t.numel()) t = t.contiguous();
  field_.type = static_cast<int8_t>(t.scalar_type());
  field_.sizes = t.sizes().vec();
  if (!t.is_contiguous()) field_.strides = t.strides().vec();
  data_ = t.const_data_ptr();
  size_bytes_ = static_cast<size_t>(t.is_contiguous() ? t.numel() : span) * t.element_size();
}

TensorSpan::~TensorSpan() = default;
TensorSpan::TensorSpan(TensorSpan&&) noexcept = default;

PyObject* new_tensor(const std::vector<int64_t>& sizes, base::DType type, void** data) {
  at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(scalar_type(type)));
  *data = tensor.data_ptr();
  return THPVariable_Wrap(tensor);
}

collate::RowTable tensor_rows(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const auto item = static_cast<size_t>(tensor.itemsize());
  const size_t end = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), item,
                                                      static_cast<size_t>(tensor.storage_offset()));
  const bool whole = tensor.numel() == 0 || end <= tensor.storage().nbytes();
  return {whole ? static_cast<const uint8_t*>(tensor.const_data_ptr()) : nullptr, tensor.size(0),
          tensor.stride(0) * static_cast<int64_t>(item)};
}

}  // namespace millrace::torch_bridge
