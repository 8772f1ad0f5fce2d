// BatchMemory: slots for batches that Python puts together. copy_rows: rows of an array to their places in such a batch.
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "bindings.h"
#include "collate/row_gather.h"
#include "core/batch_ring.h"
#include "millrace/error.h"
#include "torch_bridge/tensor.h"

namespace millrace::python {
namespace {

constexpr size_t kReleaseBytes = size_t{32} << 10;  // below it, copying takes less time than asking for the GIL again

using Int64Array = py::array_t<int64_t, py::array::c_style>;

class BatchMemory {
 public:
  BatchMemory(int fields, int slots, const std::string& memory) {
    for (int i = 0; i < fields; ++i) rings_.push_back(std::make_unique<BatchRing>(slots, std::function<void()>{}, block_source(memory)));
  }

  py::object empty(size_t field, const std::vector<int64_t>& shape, const std::string& dtype) {
    const auto type = dtype_named(dtype);
    if (!type) throw py::value_error("dtype '" + dtype + "' is not one that batches can have");
    size_t bytes = dtype_bytes(*type);
    for (const int64_t size : shape) {
      if (size < 0) throw py::value_error("a batch's sizes should be 0 or more");
      bytes = checked_mul(bytes, static_cast<size_t>(size), "batch");
    }
    void* data = nullptr;
    if (bytes < kSmallFieldBytes) return py::reinterpret_steal<py::object>(new_tensor(shape, *type, &data));
    BatchRing& ring = *rings_.at(field);
    auto lease = ring.try_acquire(bytes);
    if (!lease) lease = ring.acquire_overflow(bytes);
    return py::reinterpret_steal<py::object>(tensor_from_lease(std::move(*lease), shape, *type));
  }

  int64_t overflow_count() const {
    int64_t count = 0;
    for (const auto& ring : rings_) count += ring->overflow_count();
    return count;
  }

 private:
  std::vector<std::unique_ptr<BatchRing>> rings_;
};

void copy_rows(const py::array& table, const Int64Array& rows, const py::object& out, const std::optional<Int64Array>& at) {
  if (table.ndim() < 1) throw py::value_error("copy_rows() needs an array with rows");
  size_t row_bytes = static_cast<size_t>(table.itemsize());
  for (py::ssize_t axis = table.ndim() - 1; axis > 0; --axis) {
    if (table.strides(axis) != static_cast<py::ssize_t>(row_bytes) && table.shape(axis) > 1)
      throw py::value_error("copy_rows() needs an array whose rows are contiguous");
    row_bytes *= static_cast<size_t>(table.shape(axis));
  }
  const RowTable to = tensor_rows(out.ptr());
  if (to.rows > 1 && to.stride_bytes != static_cast<int64_t>(row_bytes))
    throw py::value_error("rows of " + std::to_string(row_bytes) + " bytes do not fit the batch's rows of " +
                          std::to_string(to.stride_bytes));
  if (at && at->size() != rows.size()) throw py::value_error("each row needs one place");
  if (!at && rows.size() > to.rows) throw py::index_error("there are more rows than places");
  const std::span places = at ? std::span<const int64_t>(at->data(), static_cast<size_t>(at->size())) : std::span<const int64_t>();
  for (const int64_t place : places)
    if (place < 0 || place >= to.rows) throw py::index_error("place " + std::to_string(place) + " is outside the batch");

  std::vector<const uint8_t*> addresses(static_cast<size_t>(rows.size()));
  const RowField field{row_bytes, {{static_cast<const uint8_t*>(table.data()), table.shape(0), table.strides(0)}}, {}};
  const std::span wanted(rows.data(), addresses.size());
  const auto copy = [&] {
    if (!locate_rows(field, table.shape(0), wanted, addresses.data()))
      throw Error(ErrorKind::out_of_range, "a row is outside the array's " + std::to_string(field.tables[0].rows));
    auto* const data = const_cast<uint8_t*>(to.base);
    if (at) gather_rows_to(addresses, row_bytes, places, data);
    else gather_rows(addresses, row_bytes, data);
  };
  if (row_bytes * addresses.size() < kReleaseBytes) return copy();
  py::gil_scoped_release release;
  copy();
}

}  // namespace

void bind_batch_memory(py::module_& m) {
  py::class_<BatchMemory>(m, "BatchMemory")
      .def(py::init<int, int, const std::string&>(), py::arg("fields"), py::arg("slots"), py::arg("memory") = "system")
      .def("empty", &BatchMemory::empty, py::arg("field"), py::arg("shape"), py::arg("dtype"))
      .def("overflow_count", &BatchMemory::overflow_count);
  m.def("copy_rows", &copy_rows, py::arg("table"), py::arg("rows"), py::arg("out"), py::arg("at") = py::none());
}

}  // namespace millrace::python
