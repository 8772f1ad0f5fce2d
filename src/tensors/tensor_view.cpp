#include "tensors/tensor_view.h"

#include <pybind11/pybind11.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"
#include "collate/strided_row.h"
#include "millrace/error.h"
#include "tensors/tensor_fields.h"
#include "tensors/torch_api.h"

namespace millrace::tensors {
namespace {

using base::DType;

constexpr size_t kAlignment = 64;

// By code, then by bits / 8; where there is no such type, 0, else its number and 1.
constexpr size_t kCodes = 7, kSizes = 17;
constexpr auto kKnown = [] {
  std::array<std::array<uint8_t, kSizes>, kCodes> known{};
  for (const DType type : base::kDTypes) {
    const dlpack::DataType name = dlpack::type_of(type);
    known[static_cast<size_t>(name.code)][name.bits / 8] = static_cast<uint8_t>(type) + 1;
  }
  return known;
}();

std::optional<DType> type_of(dlpack::DataType dtype) {
  const auto code = static_cast<size_t>(dtype.code);
  if (dtype.lanes != 1 || code >= kCodes || dtype.bits % 8 != 0 || dtype.bits / 8 >= static_cast<int>(kSizes))
    return std::nullopt;
  const uint8_t found = kKnown[code][dtype.bits / 8];
  return found == 0 ? std::nullopt : std::optional(static_cast<DType>(found - 1));
}

bool has_gradients_or_signs(DType type) {
  const char kind = base::dtype_kind(type);
  return kind == 'f' || kind == 'c' || kind == 0;
}

// The allocation that torch keeps for a tensor made here: this structure, the numbers after it, and the
// tensor's memory after these, if it has memory of its own.
struct Managed {
  dlpack::VersionedTensor tensor;
  std::shared_ptr<const void> keeper;

  int64_t* numbers() { return reinterpret_cast<int64_t*>(this + 1); }

  static void end(dlpack::VersionedTensor* tensor) {
    auto* managed = static_cast<Managed*>(tensor->manager_ctx);
    managed->~Managed();
    std::free(managed);
  }
};

// Aligned by hand: glibc's aligned allocation cannot use the hole that the last block of the same size left.
Managed* new_managed(size_t dims, size_t bytes, uint8_t** memory) {
  const size_t head = sizeof(Managed) + 2 * dims * sizeof(int64_t);
  const size_t all = base::checked_add(bytes, head + (memory != nullptr ? kAlignment : 0), "batch");
  void* block = std::malloc(all);
  if (block == nullptr)
    throw Error(ErrorKind::system, "there is no memory for a tensor of " + std::to_string(bytes) + " bytes",
                {}, -1, ENOMEM);
  if (memory != nullptr) {
    const auto end = reinterpret_cast<uintptr_t>(block) + head;
    *memory = reinterpret_cast<uint8_t*>((end + kAlignment - 1) / kAlignment * kAlignment);
  }
  return new (block) Managed{};
}

PyObject* handed_over(Managed* managed, void* data, std::span<const int64_t> sizes,
                      std::span<const int64_t> strides, DType type, dlpack::Device device) {
  int64_t* const own_sizes = managed->numbers();
  int64_t* const own_strides = own_sizes + sizes.size();
  int64_t stride = 1, elements = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    own_sizes[d] = sizes[d];
    own_strides[d] = strides.empty() ? stride : strides[d];
    stride *= std::max<int64_t>(sizes[d], 1);
    elements *= sizes[d];
  }
  managed->tensor.version = {dlpack::kMajor, 0};
  managed->tensor.manager_ctx = managed;
  managed->tensor.deleter = &Managed::end;
  managed->tensor.flags = 0;
  managed->tensor.dl_tensor = {elements == 0 ? nullptr : data,
                               device,
                               static_cast<int32_t>(sizes.size()),
                               dlpack::type_of(type),
                               own_sizes,
                               own_strides,
                               0};
  void* made = nullptr;  // with an error, torch may have called the deleter or not
  if (torch_api().exchange->managed_tensor_to_py_object_no_sync(&managed->tensor, &made) != 0)
    throw pybind11::error_already_set();
  return static_cast<PyObject*>(made);
}

}  // namespace

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

bool TensorView::is_contiguous() const {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (sizes[d] == 0) return true;
    if (strides[d] != expected) return elements() == 0;
    expected *= sizes[d];
  }
  return true;
}

void TensorView::copy_to(uint8_t* out) const {
  if (elements() == 0) return;
  const size_t item = base::dtype_bytes(type);
  std::vector<collate::RowAxis> axes;
  for (size_t d = 0; d < sizes.size(); ++d)
    axes.push_back({sizes[d], strides[d] * static_cast<int64_t>(item)});
  const uint8_t* const row = data;
  collate::StridedRow(axes, item).gather({&row, 1}, out);
}

bool read_tensor(PyObject* tensor, TensorView& view) {
  dlpack::Tensor read;
  if (torch_api().exchange->dltensor_from_py_object_no_sync(tensor, &read) != 0) {
    PyErr_Clear();
    return false;
  }
  switch (read.device.device_type) {
    case dlpack::DeviceType::cpu:
    case dlpack::DeviceType::cuda_host:
    case dlpack::DeviceType::rocm_host: break;
    default: return false;
  }
  const auto type = type_of(read.dtype);
  if (!type) return false;
  const auto dims = static_cast<size_t>(read.ndim);
  view = {
      static_cast<uint8_t*>(read.data) + read.byte_offset, {read.shape, dims}, {read.strides, dims}, *type};
  return true;
}

bool read_plain(PyObject* value, TensorView& view) {
  const TorchApi& torch = torch_api();
  if (!Py_IS_TYPE(value, torch.tensor) || !read_tensor(value, view)) return false;
  return (!has_gradients_or_signs(view.type) || !torch.requires_grad(value)) && holds_values(value, view);
}

bool read_plain_again(PyObject* value, TensorView& view) {
  const TorchApi& torch = torch_api();
  if (!torch.fields) return read_plain(value, view);
  return Py_IS_TYPE(value, torch.tensor) && torch.fields->read(value, view);
}

bool holds_values(PyObject* tensor, const TensorView& view) {
  if (!has_gradients_or_signs(view.type)) return true;
  const TorchApi& torch = torch_api();
  if (base::dtype_kind(view.type) == 'c' && torch.is_conj(tensor)) return false;
  // Only the imaginary part of a conjugate has its sign turned lazily, and its values lie two apart. So most
  // tensors need not be asked.
  return (view.is_contiguous() && view.elements() > 1) || !torch.is_neg(tensor);
}

PyObject* make_tensor(void* data, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                      DType type, std::shared_ptr<const void> keeper, dlpack::Device device) {
  Managed* const managed = new_managed(sizes.size(), 0, nullptr);
  managed->keeper = std::move(keeper);
  return handed_over(managed, data, sizes, strides, type, device);
}

PyObject* make_tensor(std::span<const int64_t> sizes, DType type, void** data) {
  size_t bytes = base::dtype_bytes(type);
  for (const int64_t size : sizes) bytes = base::checked_mul(bytes, static_cast<size_t>(size), "batch");
  uint8_t* memory = nullptr;
  Managed* const managed = new_managed(sizes.size(), bytes, &memory);
  *data = memory;
  return handed_over(managed, memory, sizes, {}, type, dlpack::kHost);
}

dlpack::Device exchange_device(PyObject* tensor) {
  dlpack::Tensor read;
  if (torch_api().exchange->dltensor_from_py_object_no_sync(tensor, &read) != 0)
    throw pybind11::error_already_set();
  return read.device;
}

}  // namespace millrace::tensors
