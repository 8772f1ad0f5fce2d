// BatchMemory: slots for batches that Python puts together. copy_rows: rows of chunks to their places in such batches.
#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "bindings.h"
#include "collate/chunk_shares.h"
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
  BatchMemory(const std::vector<std::pair<std::vector<int64_t>, std::string>>& fields, int slots, const std::string& memory) {
    for (const auto& [shape, dtype] : fields) {
      const auto type = dtype_named(dtype);
      if (!type) throw py::value_error("dtype '" + dtype + "' is not one that batches can have");
      Field& field = fields_.emplace_back(Field{shape, *type, dtype_bytes(*type), nullptr});
      for (const int64_t size : shape) {
        if (size < 0) throw py::value_error("a row's sizes should be 0 or more");
        field.row_bytes = checked_mul(field.row_bytes, static_cast<size_t>(size), "batch");
      }
      field.ring = std::make_unique<BatchRing>(slots, std::function<void()>{}, block_source(memory));
    }
  }

  py::list empty(int64_t rows) {
    if (rows < 0) throw py::value_error("a batch has 0 rows or more");
    py::list tensors;
    for (const Field& field : fields_) {
      std::vector<int64_t> shape{rows};
      shape.insert(shape.end(), field.row_shape.begin(), field.row_shape.end());
      const size_t bytes = checked_mul(field.row_bytes, static_cast<size_t>(rows), "batch");
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
    DType type;
    size_t row_bytes;
    std::unique_ptr<BatchRing> ring;
  };

  static PyObject* tensor(BatchRing& ring, const std::vector<int64_t>& shape, DType type, size_t bytes) {
    void* data = nullptr;
    if (bytes < kSmallFieldBytes) return new_tensor(shape, type, &data);
    auto lease = ring.try_acquire(bytes);
    if (!lease) lease = ring.acquire_overflow(bytes);
    return tensor_from_lease(std::move(*lease), shape, type);
  }

  std::vector<Field> fields_;
};

// Arrays of as many rows, those of a chunk: what rows are copied from. Checked once, for any number of copies.
class ChunkTable {
 public:
  explicit ChunkTable(std::vector<py::array> arrays) : arrays_(std::move(arrays)) {
    for (const py::array& array : arrays_) {
      if (array.ndim() < 1) throw py::value_error("rows are copied from an array that has some");
      size_t row_bytes = static_cast<size_t>(array.itemsize());
      for (py::ssize_t axis = array.ndim() - 1; axis > 0; --axis) {
        if (array.strides(axis) != static_cast<py::ssize_t>(row_bytes) && array.shape(axis) > 1)
          throw py::value_error("rows are copied from an array whose rows are contiguous");
        row_bytes *= static_cast<size_t>(array.shape(axis));
      }
      if (array.shape(0) != arrays_[0].shape(0)) throw py::value_error("a chunk's arrays should have as many rows");
      fields_.push_back({row_bytes, {{static_cast<const uint8_t*>(array.data()), array.shape(0), array.strides(0)}}, {}});
    }
  }

  const std::vector<RowField>& fields() const { return fields_; }
  int64_t rows() const { return fields_.empty() ? 0 : fields_[0].tables[0].rows; }

 private:
  const std::vector<py::array> arrays_;  // kept alive
  std::vector<RowField> fields_;
};

// Rows of a chunk's arrays and where they go: what is checked with the GIL, so that copying needs none.
struct Share {
  const ChunkTable* table;
  std::span<const int64_t> rows, places;
  const std::vector<uint8_t*>* out;  // of each array
};

// Share s of a batch: rows[bounds[s] .. bounds[s+1]) of tables[s] go to the same range of `places`, each array's to its tensor of `out`.
struct SharesOfBatch {
  SharesOfBatch(const py::tuple& batch, std::vector<Share>& shares, size_t& bytes)
      : rows(batch[1].cast<Int64Array>()), places(batch[2].cast<Int64Array>()) {
    const auto tables = batch[0].cast<std::vector<const ChunkTable*>>();
    const auto bounds = batch[3].cast<std::vector<int64_t>>();
    if (places.size() != rows.size()) throw py::value_error("each row needs one place");
    if (bounds.size() != tables.size() + 1 || bounds.front() < 0 || bounds.back() > rows.size())
      throw py::value_error("the shares' bounds are not those of the rows");
    std::vector<int64_t> row_bytes;
    int64_t room = std::numeric_limits<int64_t>::max();
    for (const py::handle tensor : batch[4].cast<py::list>()) {
      const RowTable to = tensor_rows(tensor.ptr());
      out.push_back(const_cast<uint8_t*>(to.base));
      row_bytes.push_back(to.rows > 1 ? to.stride_bytes : -1);
      room = std::min(room, to.rows);
    }
    for (size_t s = 0; s < tables.size(); ++s) {
      if (bounds[s] > bounds[s + 1]) throw py::value_error("the shares' bounds should rise");
      const auto& fields = tables[s]->fields();
      if (fields.size() != out.size()) throw py::value_error("each share needs one array per tensor");
      const auto first = static_cast<size_t>(bounds[s]), count = static_cast<size_t>(bounds[s + 1]) - first;
      for (size_t i = 0; i < fields.size(); ++i) {
        if (row_bytes[i] >= 0 && row_bytes[i] != static_cast<int64_t>(fields[i].row_bytes))
          throw py::value_error("rows of " + std::to_string(fields[i].row_bytes) + " bytes do not fit the batch's rows of " +
                                std::to_string(row_bytes[i]));
        bytes += fields[i].row_bytes * count;
      }
      shares.push_back({tables[s], {rows.data() + first, count}, {places.data() + first, count}, &out});
      for (const int64_t place : shares.back().places)
        if (place < 0 || place >= room) throw py::index_error("place " + std::to_string(place) + " is outside the batch");
    }
  }
  SharesOfBatch(const SharesOfBatch&) = delete;
  SharesOfBatch& operator=(const SharesOfBatch&) = delete;

  const Int64Array rows, places;  // kept alive
  std::vector<uint8_t*> out;
};

void copy(const Share& share, std::vector<const uint8_t*>& addresses) {
  addresses.resize(share.rows.size());
  const auto& fields = share.table->fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!locate_rows(fields[i], share.table->rows(), share.rows, addresses.data()))
      throw Error(ErrorKind::out_of_range, "a row is outside the array's " + std::to_string(share.table->rows()));
    gather_rows_to(addresses, fields[i].row_bytes, share.places, (*share.out)[i]);
  }
}

// Batches of (tables, rows, places, bounds, out).
void copy_rows(const std::vector<py::tuple>& batches) {
  std::deque<SharesOfBatch> kept;
  std::vector<Share> shares;
  size_t bytes = 0;
  for (const py::tuple& batch : batches) kept.emplace_back(batch, shares, bytes);
  std::vector<const uint8_t*> addresses;
  if (bytes < kReleaseBytes) {
    for (const Share& share : shares) copy(share, addresses);
    return;
  }
  py::gil_scoped_release release;
  for (const Share& share : shares) copy(share, addresses);
}

// Samples sorted by chunk, those of a chunk in their order: (places in the batch, rows in their chunks, chunks, bounds of their shares).
py::tuple chunk_shares(const Int64Array& indices, const Int64Array& starts) {
  if (starts.size() < 1) throw py::value_error("chunks begin somewhere, and end");
  Int64Array places(indices.size()), rows(indices.size());
  const auto count = static_cast<size_t>(indices.size());
  const ChunkShares shares = share_by_chunk({indices.data(), count}, {starts.data(), static_cast<size_t>(starts.size())},
                                            {places.mutable_data(), count}, {rows.mutable_data(), count});
  return py::make_tuple(places, rows, py::cast(shares.chunks), py::cast(shares.bounds));
}

}  // namespace

void bind_batch_memory(py::module_& m) {
  py::class_<BatchMemory>(m, "BatchMemory")
      .def(py::init<const std::vector<std::pair<std::vector<int64_t>, std::string>>&, int, const std::string&>(), py::arg("fields"),
           py::arg("slots"), py::arg("memory") = "system")
      .def("empty", &BatchMemory::empty, py::arg("rows"))
      .def("overflow_count", &BatchMemory::overflow_count);
  m.def("chunk_shares", &chunk_shares, py::arg("indices"), py::arg("starts"));
  py::class_<ChunkTable>(m, "ChunkTable").def(py::init<std::vector<py::array>>(), py::arg("arrays"));
  m.def("copy_rows", &copy_rows, py::arg("batches"));
}

}  // namespace millrace::python
