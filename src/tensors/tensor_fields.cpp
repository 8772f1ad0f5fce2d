#include "tensors/tensor_fields.h"

#include <pybind11/eval.h>
#include <pybind11/pybind11.h>

#include <cstring>
#include <string>

#include "tensors/torch_api.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;

template <class Function>
bool find(Function& function, const char* name, const char* library = "libtorch_cpu.so") {
  function = reinterpret_cast<Function>(torch_symbol(library, name));
  return function != nullptr;
}

bool same(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.type == b.type && a.has_sizes(b.sizes) &&
         std::ranges::equal(a.strides, b.strides);
}

// What the functions are tried on, and whether they are to read it.
struct Trial {
  const char* expression;
  bool plain;
};
constexpr Trial kTrials[] = {
    {"torch.zeros(2, 3)", true},
    {"torch.zeros(5, 4, 6, dtype=torch.int16)[1:, ::2].transpose(0, 2)", true},
    {"torch.tensor(True)", true},
    {"torch.zeros(2, dtype=torch.bfloat16)", true},
    {"torch.zeros(2, dtype=torch.uint64)", true},
    {"torch.zeros(2, dtype=torch.float64)", true},
    {"torch.zeros(2, dtype=torch.uint8)", true},
    {"torch.zeros(2, requires_grad=True)", false},
    {"torch.zeros(2, requires_grad=True) * 2", false},
    {"torch.zeros(2, dtype=torch.complex64).conj()", false},
    {"torch.zeros(2, dtype=torch.complex64).conj().imag", false},
    {"torch.zeros(2).to_sparse()", false},
    {"torch.zeros(2, device='meta')", false},
};

}  // namespace

bool TensorFields::find_functions() {
  int32_t (*host)(), (*strided)();
  if (!find(device_, "aoti_torch_get_device_type") || !find(layout_, "aoti_torch_get_layout") ||
      !find(dtype_, "aoti_torch_get_dtype") || !find(dims_, "aoti_torch_get_dim") ||
      !find(sizes_, "aoti_torch_get_sizes") || !find(strides_, "aoti_torch_get_strides") ||
      !find(data_, "aoti_torch_get_data_ptr") || !find(host, "aoti_torch_device_type_cpu") ||
      !find(strided, "aoti_torch_layout_strided") ||
      !find(requires_grad_, "_ZNK3c1010TensorImpl13requires_gradEv", "libc10.so"))
    return false;
  host_ = host();
  strided_ = strided();
  for (const base::DType type : base::kDTypes) {
    int32_t (*number)();
    if (!find(number, ("aoti_torch_dtype_" + std::string(base::dtype_name(type))).c_str())) return false;
    const auto at = static_cast<size_t>(number());
    if (at >= types_.size()) return false;
    types_[at] = static_cast<uint8_t>(type) + 1;
  }
  return true;
}

// An at::Tensor is a pointer to what `_cdata` says.
bool TensorFields::find_handle(PyObject* tensor) {
  const auto address = py::handle(tensor).attr("_cdata").cast<uintptr_t>();
  const auto* const object = reinterpret_cast<const std::byte*>(tensor);
  const auto size = static_cast<size_t>(Py_TYPE(tensor)->tp_basicsize);
  for (handle_at_ = sizeof(PyObject); handle_at_ + sizeof(address) <= size; handle_at_ += sizeof(address)) {
    uintptr_t word = 0;
    std::memcpy(&word, object + handle_at_, sizeof(word));
    if (word == address) return true;
  }
  return false;
}

std::optional<TensorFields> TensorFields::of_torch() {
  TensorFields fields;
  if (!fields.find_functions()) return std::nullopt;
  try {
    py::dict names;
    names["torch"] = py::handle(torch_api().torch);
    for (const Trial& trial : kTrials) {
      const py::object tensor = py::eval(trial.expression, names);
      if (fields.handle_at_ == 0 && !fields.find_handle(tensor.ptr())) return std::nullopt;
      TensorView found, known;
      if (fields.read(tensor.ptr(), found) != trial.plain) return std::nullopt;
      if (trial.plain && !(read_tensor(tensor.ptr(), known) && same(found, known))) return std::nullopt;
    }
  } catch (const py::error_already_set&) {
    return std::nullopt;
  }
  return fields;
}

bool TensorFields::read(PyObject* tensor, TensorView& view) const {
  auto* const handle = reinterpret_cast<std::byte*>(tensor) + handle_at_;
  const void* implementation = nullptr;
  std::memcpy(&implementation, handle, sizeof(implementation));
  int32_t device, layout, dtype;
  if (device_(handle, &device) != 0 || device != host_ || layout_(handle, &layout) != 0 ||
      layout != strided_ || dtype_(handle, &dtype) != 0 || dtype < 0 ||
      static_cast<size_t>(dtype) >= types_.size() || types_[static_cast<size_t>(dtype)] == 0 ||
      requires_grad_(implementation))
    return false;
  int64_t dims = 0, *sizes = nullptr, *strides = nullptr;
  void* data = nullptr;
  if (dims_(handle, &dims) != 0 || sizes_(handle, &sizes) != 0 || strides_(handle, &strides) != 0 ||
      data_(handle, &data) != 0)
    return false;
  const auto count = static_cast<size_t>(dims);
  view = {static_cast<uint8_t*>(data),
          {sizes, count},
          {strides, count},
          static_cast<base::DType>(types_[static_cast<size_t>(dtype)] - 1)};
  return holds_values(tensor, view);
}

}  // namespace millrace::tensors
