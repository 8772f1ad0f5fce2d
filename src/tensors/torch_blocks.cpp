#include "tensors/torch_blocks.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>

#include "core/numa.h"
#include "millrace/error.h"
#include "tensors/torch_api.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;

// torch's C interface for compiled models, looked up by name: 0 is success, a handle is an owned tensor.
struct TorchTensor;
struct Functions {
  using Make = int32_t (*)(int64_t dims, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                           int32_t device_type, int32_t device_index, TorchTensor** made);
  Make make = find<Make>("aoti_torch_empty_strided"),
       make_pinned = find<Make>("aoti_torch_empty_strided_pinned");
  int32_t (*end)(TorchTensor*) = find<int32_t (*)(TorchTensor*)>("aoti_torch_delete_tensor_object");
  int32_t (*data)(TorchTensor*, void**) = find<int32_t (*)(TorchTensor*, void**)>("aoti_torch_get_data_ptr");
  int32_t (*alias)(TorchTensor*, int64_t, const int64_t*, const int64_t*, int64_t, TorchTensor**) =
      find<int32_t (*)(TorchTensor*, int64_t, const int64_t*, const int64_t*, int64_t, TorchTensor**)>(
          "aoti_torch__reinterpret_tensor");
  int32_t (*bytes_type)() = find<int32_t (*)()>("aoti_torch_dtype_uint8");
  int32_t (*cpu)() = find<int32_t (*)()>("aoti_torch_device_type_cpu");

  template <class F>
  static F find(const char* name) {
    return reinterpret_cast<F>(torch_symbol("libtorch_cpu.so", name));
  }
  bool complete() const { return make && make_pinned && end && data && alias && bytes_type && cpu; }
};

const Functions& functions() {
  static const Functions& found = *new Functions;  // used until the process ends
  return found;
}

std::shared_ptr<TorchTensor> owned(TorchTensor* tensor) {
  return {tensor, [](TorchTensor* ended) { functions().end(ended); }};
}

// Null: there is no such memory.
std::shared_ptr<TorchTensor> new_bytes(size_t bytes, Functions::Make make) {
  const Functions& torch = functions();
  const auto size = static_cast<int64_t>(bytes);
  const int64_t stride = 1;
  TorchTensor* made = nullptr;
  if (make(1, &size, &stride, torch.bytes_type(), torch.cpu(), 0, &made) != 0) return nullptr;
  return owned(made);
}

}  // namespace

bool has_torch_blocks() { return functions().complete(); }

core::BlockSource torch_blocks(bool page_locked, int node) {
  if (!has_torch_blocks()) return {};
  // Several workers may ask at a time. Shared, because sources are copied.
  return [locks = std::make_shared<std::atomic<bool>>(page_locked), node](size_t bytes) {
    const core::NearNode near(node);
    const Functions& torch = functions();
    std::shared_ptr<TorchTensor> memory;
    if (locks->load(std::memory_order_relaxed)) {
      memory = new_bytes(bytes, torch.make_pinned);
      if (memory == nullptr) locks->store(false, std::memory_order_relaxed);  // torch logs each refusal
    }
    if (memory == nullptr) memory = new_bytes(bytes, torch.make);
    void* data = nullptr;
    if (memory == nullptr || torch.data(memory.get(), &data) != 0)
      throw Error(
          ErrorKind::system,
          "there is no memory for a batch of " + std::to_string(bytes) + " bytes; use a smaller batch_size",
          {}, -1, ENOMEM);
    return core::MemoryBlock(static_cast<uint8_t*>(data), bytes, memory);
  };
}

PyObject* tensor_of_block(const std::shared_ptr<void>& owner, size_t offset,
                          const std::vector<int64_t>& sizes, base::DType type) {
  // Of a tensor that C++ and Python share, Python's half would outlive the other, and end where the block
  // does, without the GIL: so Python gets a tensor of its own.
  TorchTensor* made = nullptr;
  const int64_t size = 0, stride = 1;
  if (functions().alias(static_cast<TorchTensor*>(owner.get()), 1, &size, &stride, 0, &made) != 0)
    throw Error(ErrorKind::system, "torch gives no tensor over its own memory", {}, -1, ENOMEM);
  const std::shared_ptr<TorchTensor> alias = owned(made);
  const py::handle torch = torch_api().torch;
  const auto handle = py::reinterpret_steal<py::object>(PyCapsule_New(alias.get(), nullptr, nullptr));
  if (!handle) throw py::error_already_set();
  // Whatever its name says, it takes nothing: the alias is still ours to end.
  const py::object bytes =
      torch.attr("_C").attr("_aoti").attr("alloc_tensor_by_stealing_from_void_ptr")(handle);
  py::object tensor = torch.attr("empty")(0, py::arg("dtype") = torch.attr(base::dtype_name(type)),
                                          py::arg("device") = "cpu");
  const auto item = base::dtype_bytes(type);
  return tensor.attr("set_")(bytes.attr("untyped_storage")(), offset / item, py::tuple(py::cast(sizes)))
      .release()
      .ptr();
}

}  // namespace millrace::tensors
