#include "tensors/tensor_memory.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <utility>

#include "millrace/error.h"
#include "tensors/python_keeper.h"
#include "tensors/tensor_view.h"
#include "tensors/torch_api.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;

// A c10::Storage as the callers of its functions see it: one pointer, passed and returned like any class that
// cannot be copied byte by byte.
struct Storage {
  explicit Storage(void* pointer) : counted(pointer) {}
  Storage(Storage&& other) noexcept : counted(std::exchange(other.counted, nullptr)) {}
  Storage& operator=(Storage&&) = delete;
  ~Storage() {}  // counts nothing: one that was taken over is null

  void* counted;
};

// c10::newStorageImplFromRefcountedDataPtr() and THPStorage_Wrap(). Python has no name for the first, nor for
// anything else that gives memory a second owner.
struct SecondOwner {
  using Make = Storage (*)(const Storage&);
  using Wrap = PyObject* (*)(Storage);
  Make make = reinterpret_cast<Make>(
      torch_symbol("libc10.so", "_ZN3c1035newStorageImplFromRefcountedDataPtrERKNS_7StorageE"));
  Wrap wrap = reinterpret_cast<Wrap>(torch_symbol("libtorch_python.so", "_Z15THPStorage_WrapN3c107StorageE"));
};

const SecondOwner& second_owner() {
  static const SecondOwner& found = *new SecondOwner;
  return found;
}

// Methods of tensors and storages, by names that are made once: that takes a third of the time.
struct Names {
  PyObject* untyped_storage = PyUnicode_InternFromString("untyped_storage");
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
  PyObject* nbytes = PyUnicode_InternFromString("nbytes");
  PyObject* resizable = PyUnicode_InternFromString("resizable");
  PyObject* is_shared = PyUnicode_InternFromString("is_shared");
  PyObject* is_pinned = PyUnicode_InternFromString("is_pinned");
  PyObject* cdata = PyUnicode_InternFromString("_cdata");
};

const Names& names() {
  static const Names& made = *new Names;
  return made;
}

py::object asked(PyObject* object, PyObject* method) {
  PyObject* const answer = PyObject_CallMethodNoArgs(object, method);
  if (answer == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(answer);
}

bool says_yes(PyObject* object, PyObject* method) { return asked(object, method).ptr() == Py_True; }

template <class T>
T number(PyObject* object, PyObject* method) {
  return py::cast<T>(asked(object, method));
}

// A storage of its own over the same memory, which ends with the last of the two; null, where that cannot be
// had.
PyObject* second_storage(const py::object& storage) {
  if (!can_hold_memory()) return nullptr;
  const auto address = py::reinterpret_steal<py::object>(PyObject_GetAttr(storage.ptr(), names().cdata));
  if (!address) throw py::error_already_set();
  const Storage first(PyLong_AsVoidPtr(address.ptr()));
  PyObject* const wrapped = second_owner().wrap(second_owner().make(first));
  if (wrapped == nullptr) throw py::error_already_set();
  return wrapped;
}

py::object storage_of(PyObject* tensor) { return asked(tensor, names().untyped_storage); }

}  // namespace

bool can_hold_memory() { return second_owner().make != nullptr && second_owner().wrap != nullptr; }

bool is_tensor(PyObject* value) { return PyObject_TypeCheck(value, torch_api().tensor) != 0; }

TensorField form_of(PyObject* object) {
  TensorView view;
  if (!read_tensor(object, view)) throw Error(ErrorKind::invalid_argument, "not a dense CPU tensor");
  return {0, view.type, {view.sizes.begin(), view.sizes.end()}, {view.strides.begin(), view.strides.end()}};
}

bool is_in_place(PyObject* object, const TensorField& form, const collate::RowTable& rows) {
  TensorView view;
  return read_tensor(object, view) && view.type == form.type && view.has_sizes(form.sizes) &&
         std::ranges::equal(view.strides, form.strides) && view.data == rows.base &&
         (view.data != nullptr || view.elements() == 0) && !torch_api().requires_grad(object);
}

MemoryFacts memory_facts(PyObject* object) {
  TensorView view;
  if (!read_tensor(object, view)) throw Error(ErrorKind::invalid_argument, "not a dense CPU tensor");
  const py::object storage = storage_of(object);
  MemoryFacts facts{!says_yes(storage.ptr(), names().resizable), false};
  if (view.elements() == 0) return facts;
  const auto begin = number<uintptr_t>(storage.ptr(), names().data_ptr);
  int64_t last = 0;
  for (size_t d = 0; d < view.sizes.size(); ++d) last += (view.sizes[d] - 1) * view.strides[d];
  const size_t end = reinterpret_cast<uintptr_t>(view.data) - begin +
                     static_cast<size_t>(last + 1) * base::dtype_bytes(view.type);
  facts.is_cut_short = end > number<size_t>(storage.ptr(), names().nbytes);
  return facts;
}

HeldMemory hold_memory(PyObject* object) {
  py::object storage = storage_of(object);
  const bool theirs = says_yes(storage.ptr(), names().is_shared) || says_yes(object, names().is_pinned);
  if (!theirs)
    if (PyObject* const second = second_storage(storage)) return {keep_object(second), true};
  return {keep_object(storage.release().ptr()), theirs};
}

}  // namespace millrace::tensors
