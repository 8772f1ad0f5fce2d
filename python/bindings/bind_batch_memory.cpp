// BatchMemory: slots for batches that Python puts together. copy_rows: rows of chunks to their places in such
// batches. copy_field: a whole field of one.
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "bindings.h"
#include "collate/chunk_rows.h"
#include "collate/chunk_shares.h"
#include "collate/streamed_copy.h"
#include "core/batch_ring.h"
#include "tensors/tensor.h"

namespace millrace::python {
namespace {

constexpr size_t kReleaseBytes = size_t{32}
                                 << 10;  // below it, copying takes less time than asking for the GIL again

using Int64Array = py::array_t<int64_t, py::array::c_style>;

class BatchMemory {
 public:
  BatchMemory(const std::vector<std::pair<std::vector<int64_t>, std::string>>& fields, int slots,
              const std::string& memory) {
    for (const auto& [shape, dtype] : fields) {
      const auto type = base::dtype_named(dtype);
      if (!type) throw py::value_error("dtype '" + dtype + "' is not one that batches can have");
      Field& field = fields_.emplace_back(Field{shape, *type, base::dtype_bytes(*type), nullptr});
      for (const int64_t size : shape) {
        if (size < 0) throw py::value_error("a row's sizes should be 0 or more");
        field.row_bytes = base::checked_mul(field.row_bytes, static_cast<size_t>(size), "batch");
      }
      field.ring = std::make_unique<core::BatchRing>(slots, std::function<void()>{}, block_source(memory));
    }
  }

  py::list empty(int64_t rows) {
    if (rows < 0) throw py::value_error("a batch has 0 rows or more");
    py::list tensors;
    for (const Field& field : fields_) {
      std::vector<int64_t> shape{rows};
      shape.insert(shape.end(), field.row_shape.begin(), field.row_shape.end());
      const size_t bytes = base::checked_mul(field.row_bytes, static_cast<size_t>(rows), "batch");
      tensors.append(py::reinterpret_steal<py::object>(tensor(*field.ring, shape, field.type, bytes)));
    }
    return tensors;
  }

  int64_t overflow_count() const {
    int64_t count = 0;
    for (const Field& field : fields_) count += field.ring->overflow_count();
    return count;
  }

 private:
  struct Field {
    std::vector<int64_t> row_shape;
    base::DType type;
    size_t row_bytes;
    std::unique_ptr<core::BatchRing> ring;
  };

  static PyObject* tensor(core::BatchRing& ring, const std::vector<int64_t>& shape, base::DType type,
                          size_t bytes) {
    void* data = nullptr;
    if (bytes < core::kSmallFieldBytes) return tensors::new_tensor(shape, type, &data);
    auto lease = ring.try_acquire(bytes);
    if (!lease) lease = ring.acquire_overflow(bytes);
    return tensors::tensor_from_lease(std::move(*lease), shape, type);
  }

  std::vector<Field> fields_;
};

// The arrays of a chunk, with the same number of rows each: the source of copied rows. Checked once, for any
// number of copies.
class ChunkTable {
 public:
  ChunkTable(const std::vector<py::array>& arrays, bool in_any_order) {
    std::vector<collate::ChunkRows::Column> columns;
    for (const py::array& array : arrays) {
      if (array.ndim() < 1) throw py::value_error("rows are copied from an array that has some");
      size_t row_bytes = static_cast<size_t>(array.itemsize());
      for (py::ssize_t axis = array.ndim() - 1; axis > 0; --axis) {
        if (array.strides(axis) != static_cast<py::ssize_t>(row_bytes) && array.shape(axis) > 1)
          throw py::value_error("rows are copied from an array whose rows are contiguous");
        row_bytes *= static_cast<size_t>(array.shape(axis));
      }
      if (array.shape(0) != arrays[0].shape(0))
        throw py::value_error("a chunk's arrays should have as many rows");
      columns.push_back(
          {static_cast<const uint8_t*>(array.data()), row_bytes, item_bytes(array), array.strides(0)});
    }
    const int64_t rows = arrays.empty() ? 0 : arrays[0].shape(0);
    {
      py::gil_scoped_release release;
      rows_ = std::make_shared<const collate::ChunkRows>(std::move(columns), rows, in_any_order);
    }
    for (size_t i = 0; i < arrays.size(); ++i)
      arrays_.push_back(rows_->is_interleaved(i) ? view(arrays[i], i) : arrays[i]);
  }

  const collate::ChunkRows& rows() const { return *rows_; }
  const std::vector<py::array>& arrays() const { return arrays_; }

 private:
  // Returns a number that divides every element's address: 1 for elements with several parts (a structure,
  // text), because nothing is known of theirs.
  static size_t item_bytes(const py::array& array) {
    const auto bytes = static_cast<size_t>(array.itemsize());
    return std::has_single_bit(bytes) ? bytes : 1;
  }

  // Returns the same values at their current place.
  py::array view(const py::array& array, size_t column) const {
    const auto keeper = new std::shared_ptr<const collate::ChunkRows>(rows_);
    const py::capsule owner(
        keeper, [](void* kept) { delete static_cast<std::shared_ptr<const collate::ChunkRows>*>(kept); });
    std::vector<py::ssize_t> shape(array.shape(), array.shape() + array.ndim()),
        strides(array.strides(), array.strides() + array.ndim());
    strides[0] = rows_->columns()[column].stride_bytes;
    py::array made(array.dtype(), shape, strides, rows_->columns()[column].data, owner);
    py::detail::array_proxy(made.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
    return made;
  }

  std::shared_ptr<const collate::ChunkRows> rows_;
  std::vector<py::array> arrays_;  // kept alive
};

// A batch of samples copied from chunks. The constructor checks all with the GIL, so that copying needs none.
struct BatchCopy {
  // `tables`: of the shares `first`, ... of the batch.
  BatchCopy(const collate::ChunkShares& shares, size_t first, const std::vector<const ChunkTable*>& tables,
            const py::list& tensors)
      : size(shares.places.size()) {
    if (first + tables.size() > shares.chunks.size())
      throw py::value_error("there are more tables than chunks");
    std::vector<int64_t> row_bytes;
    for (const py::handle tensor : tensors) {
      const collate::RowTable to = tensors::tensor_rows(tensor.ptr());
      if (to.rows != static_cast<int64_t>(size))
        throw py::value_error("each tensor should have a row for each sample of the batch");
      out.push_back(const_cast<uint8_t*>(to.base));
      row_bytes.push_back(to.rows > 1 ? to.stride_bytes : -1);
    }
    for (size_t i = 0; i < tables.size(); ++i) {
      const auto& columns = tables[i]->rows().columns();
      if (columns.size() != out.size()) throw py::value_error("each share needs one array per tensor");
      const auto begin = static_cast<size_t>(shares.bounds[first + i]),
                 end = static_cast<size_t>(shares.bounds[first + i + 1]);
      for (size_t c = 0; c < columns.size(); ++c) {
        if (row_bytes[c] >= 0 && row_bytes[c] != static_cast<int64_t>(columns[c].row_bytes))
          throw py::value_error("rows of " + std::to_string(columns[c].row_bytes) +
                                " bytes do not fit the batch's rows of " + std::to_string(row_bytes[c]));
        bytes += columns[c].row_bytes * (end - begin);
      }
      copied.push_back({&tables[i]->rows(), std::span(shares.rows).subspan(begin, end - begin),
                        std::span(shares.places).subspan(begin, end - begin)});
    }
  }

  const size_t size;
  size_t bytes = 0;
  std::vector<collate::ChunkShare> copied;
  std::vector<uint8_t*> out;
};

// Copies batches of (shares, the first one to copy, tables of it and the following ones, tensors).
void copy_rows(const std::vector<std::tuple<const collate::ChunkShares*, size_t,
                                            std::vector<const ChunkTable*>, py::list>>& batches) {
  std::vector<BatchCopy> copies;
  size_t bytes = 0;
  for (const auto& [shares, first, tables, tensors] : batches)
    bytes += copies.emplace_back(*shares, first, tables, tensors).bytes;
  const auto copy = [&copies] {
    collate::RowDealer dealer;
    for (const BatchCopy& batch : copies) dealer.copy(batch.copied, batch.size, batch.out);
  };
  if (bytes < kReleaseBytes) return copy();
  py::gil_scoped_release release;
  copy();
}

void copy_field(const py::array& from, py::array& to) {
  if (from.nbytes() != to.nbytes()) throw py::value_error("a field is copied to one of as many bytes");
  for (const py::array& array : {from, py::array(to)})
    if (!(array.flags() & py::array::c_style)) throw py::value_error("a field is copied without gaps");
  const auto bytes = static_cast<size_t>(from.nbytes());
  const void* const source = from.data();
  void* const target = to.mutable_data();  // raises for one that is read-only
  if (bytes < kReleaseBytes) {
    if (bytes > 0) std::memcpy(target, source, bytes);
    return;
  }
  py::gil_scoped_release release;
  collate::streamed_copy(source, bytes, target);
}

// A view of one of the vectors of `shares`.
template <std::vector<int64_t> collate::ChunkShares::* kMember>
Int64Array view_of(const py::object& shares) {
  const std::vector<int64_t>& values = shares.cast<const collate::ChunkShares&>().*kMember;
  return Int64Array(static_cast<py::ssize_t>(values.size()), values.data(), shares);
}

// Returns whether `indices` can be used without a conversion.
bool are_indices(const py::object& indices, int64_t length) {
  if (!py::isinstance<py::array_t<int64_t>>(indices)) return false;
  const auto array = py::reinterpret_borrow<py::array>(indices);
  if (array.ndim() != 1 || (array.shape(0) > 1 && array.strides(0) != sizeof(int64_t))) return false;
  const std::span<const int64_t> values(static_cast<const int64_t*>(array.data()),
                                        static_cast<size_t>(array.shape(0)));
  bool inside = true;
  for (const int64_t value : values) inside &= static_cast<uint64_t>(value) < static_cast<uint64_t>(length);
  return inside;
}

collate::ChunkShares chunk_shares(const Int64Array& indices, const Int64Array& starts) {
  if (starts.size() < 1) throw py::value_error("chunks begin somewhere, and end");
  return collate::share_by_chunk({indices.data(), static_cast<size_t>(indices.size())},
                                 {starts.data(), static_cast<size_t>(starts.size())});
}

}  // namespace

void bind_batch_memory(py::module_& m) {
  py::class_<BatchMemory>(m, "BatchMemory")
      .def(py::init<const std::vector<std::pair<std::vector<int64_t>, std::string>>&, int,
                    const std::string&>(),
           py::arg("fields"), py::arg("slots"), py::arg("memory") = "system")
      .def("empty", &BatchMemory::empty, py::arg("rows"))
      .def("overflow_count", &BatchMemory::overflow_count);
  m.def("are_indices", &are_indices, py::arg("indices"), py::arg("length"));
  py::class_<collate::ChunkShares>(m, "ChunkShares")
      .def(py::init(&chunk_shares), py::arg("indices"), py::arg("starts"))
      .def_property_readonly("chunks", [](const collate::ChunkShares& shares) { return shares.chunks; })
      .def_property_readonly("bounds", [](const collate::ChunkShares& shares) { return shares.bounds; })
      .def_property_readonly("places", &view_of<&collate::ChunkShares::places>)
      .def_property_readonly("rows", &view_of<&collate::ChunkShares::rows>)
      .def_property_readonly("in_order", [](const collate::ChunkShares& shares) {
        return 2 * shares.successors + 2 > shares.places.size();
      });
  py::class_<ChunkTable>(m, "ChunkTable")
      .def(py::init<const std::vector<py::array>&, bool>(), py::arg("arrays"),
           py::arg("in_any_order") = false)
      .def_property_readonly("arrays", &ChunkTable::arrays);
  m.def("copy_rows", &copy_rows, py::arg("batches"));
  m.def("copy_field", &copy_field, py::arg("source"), py::arg("target"));
}

}  // namespace millrace::python
