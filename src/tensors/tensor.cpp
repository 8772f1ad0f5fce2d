#include "tensors/tensor.h"

#include <pybind11/pybind11.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/checked.h"
#include "tensors/tensor_view.h"
#include "tensors/torch_blocks.h"

namespace millrace::tensors {
namespace {

// A view that leaves more of its memory unused than this is not worth its strides.
constexpr int64_t kMostGaps = 16;

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
  if (const auto owner = lease.owner()) return tensor_of_block(owner, 0, sizes, type);
  uint8_t* const data = lease.data();
  return make_tensor(data, sizes, {}, type, std::make_shared<const core::Lease>(std::move(lease)));
}

std::vector<PyObject*> tensors_from_lease(core::Lease lease, const std::vector<LeasePart>& parts,
                                          base::DType type) {
  for (const LeasePart& part : parts)
    if (part.offset > lease.size_bytes() || lease.size_bytes() - part.offset < bytes_of(part.sizes, type))
      throw Error(ErrorKind::invalid_argument, "a part of a batch lies outside of its slot");
  const auto held = std::make_shared<const core::Lease>(std::move(lease));
  const auto owner = held->owner();
  std::vector<PyObject*> tensors;
  for (const LeasePart& part : parts)
    tensors.push_back(owner ? tensor_of_block(owner, part.offset, part.sizes, type)
                            : make_tensor(held->data() + part.offset, part.sizes, {}, type, held));
  return tensors;
}

PyObject* tensor_over(const std::shared_ptr<const void>& keeper, uint8_t* base, const TensorField& field,
                      bool copy) {
  uint8_t* const data = base + field.offset;
  const bool dense = field.strides.empty();
  if (!copy && !(dense && bytes_of(field.sizes, field.type) < core::kSmallFieldBytes))
    return make_tensor(data, field.sizes, field.strides, field.type, keeper);
  void* to = nullptr;
  if (dense) {
    PyObject* const tensor = new_tensor(field.sizes, field.type, &to);
    std::memcpy(to, data, bytes_of(field.sizes, field.type));
    return tensor;
  }
  // torch decides what strides a copy has.
  const auto view = pybind11::reinterpret_steal<pybind11::object>(
      make_tensor(data, field.sizes, field.strides, field.type, keeper));
  return view.attr("clone")().release().ptr();
}

bool is_plain_tensor(PyObject* value) {
  TensorView view;
  return read_plain(value, view);
}

TensorSpan::TensorSpan(PyObject* value) {
  TensorView view;
  if (!read_plain(value, view)) throw Error(ErrorKind::invalid_argument, "not a plain dense CPU tensor");
  const int64_t elements = view.elements();
  int64_t span = elements > 0 ? 1 : 0;
  for (size_t d = 0; span > 0 && d < view.sizes.size(); ++d) span += (view.sizes[d] - 1) * view.strides[d];
  bool dense = view.is_contiguous();
  field_.type = view.type;
  field_.sizes.assign(view.sizes.begin(), view.sizes.end());
  data_ = view.data;
  if (!dense && span > kMostGaps * elements) {
    copy_.reset(new uint8_t[view.bytes()]);
    view.copy_to(copy_.get());
    data_ = copy_.get();
    dense = true;
  }
  if (!dense) field_.strides.assign(view.strides.begin(), view.strides.end());
  size_bytes_ = static_cast<size_t>(dense ? elements : span) * base::dtype_bytes(view.type);
}

void TensorSpan::copy() {
  if (is_copy() || size_bytes_ == 0) return;
  copy_.reset(new uint8_t[size_bytes_]);
  std::memcpy(copy_.get(), data_, size_bytes_);
  data_ = copy_.get();
}

PyObject* new_tensor(const std::vector<int64_t>& sizes, base::DType type, void** data) {
  return make_tensor(sizes, type, data);
}

collate::RowTable tensor_rows(PyObject* object) {
  TensorView view;
  if (!read_tensor(object, view) || view.sizes.empty())
    throw Error(ErrorKind::invalid_argument, "not a dense CPU tensor with rows");
  const auto item = static_cast<int64_t>(base::dtype_bytes(view.type));
  return {view.data, view.sizes[0], view.strides[0] * item};
}

}  // namespace millrace::tensors
