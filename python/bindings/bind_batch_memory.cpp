// BatchMemory: slots for batches that Python puts together. copy_rows: rows of arrays to their places in such a batch.
#include <algorithm>
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

// Rows of one array and where they go: what is checked with the GIL, so that copying needs none.
struct Share {
  RowField field;
  std::span<const int64_t> rows, places;
  uint8_t* out = nullptr;
};

Share checked_share(const py::array& table, std::span<const int64_t> rows, std::span<const int64_t> places, const py::handle& out) {
  if (table.ndim() < 1) throw py::value_error("rows are copied from an array that has some");
  size_t row_bytes = static_cast<size_t>(table.itemsize());
  for (py::ssize_t axis = table.ndim() - 1; axis > 0; --axis) {
    if (table.strides(axis) != static_cast<py::ssize_t>(row_bytes) && table.shape(axis) > 1)
      throw py::value_error("rows are copied from an array whose rows are contiguous");
    row_bytes *= static_cast<size_t>(table.shape(axis));
  }
  const RowTable to = tensor_rows(out.ptr());
  if (to.rows > 1 && to.stride_bytes != static_cast<int64_t>(row_bytes))
    throw py::value_error("rows of " + std::to_string(row_bytes) + " bytes do not fit the batch's rows of " +
                          std::to_string(to.stride_bytes));
  for (const int64_t place : places)
    if (place < 0 || place >= to.rows) throw py::index_error("place " + std::to_string(place) + " is outside the batch");
  return {{row_bytes, {{static_cast<const uint8_t*>(table.data()), table.shape(0), table.strides(0)}}, {}},
          rows, places, const_cast<uint8_t*>(to.base)};
}

void copy(const Share& share, std::vector<const uint8_t*>& addresses) {
  addresses.resize(share.rows.size());
  const int64_t rows = share.field.tables[0].rows;
  if (!locate_rows(share.field, rows, share.rows, addresses.data()))
    throw Error(ErrorKind::out_of_range, "a row is outside the array's " + std::to_string(rows));
  gather_rows_to(addresses, share.field.row_bytes, share.places, share.out);
}

// Share s of the batch: rows[bounds[s] .. bounds[s+1]) of the arrays tables[s], one per tensor, to the same range of `places`.
void copy_rows(const std::vector<std::vector<py::array>>& tables, const Int64Array& rows, const Int64Array& places,
               const std::vector<int64_t>& bounds, const py::list& out) {
  if (places.size() != rows.size()) throw py::value_error("each row needs one place");
  if (bounds.size() != tables.size() + 1 || bounds.front() < 0 || bounds.back() > rows.size())
    throw py::value_error("the shares' bounds are not those of the rows");
  std::vector<Share> shares;
  size_t bytes = 0;
  for (size_t s = 0; s < tables.size(); ++s) {
    if (bounds[s] > bounds[s + 1]) throw py::value_error("the shares' bounds should rise");
    if (tables[s].size() != out.size()) throw py::value_error("each share needs one array per tensor");
    const auto first = static_cast<size_t>(bounds[s]), count = static_cast<size_t>(bounds[s + 1]) - first;
    for (size_t i = 0; i < tables[s].size(); ++i) {
      shares.push_back(checked_share(tables[s][i], {rows.data() + first, count}, {places.data() + first, count}, out[i]));
      bytes += shares.back().field.row_bytes * count;
    }
  }
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
  const auto count = static_cast<size_t>(indices.size());
  const int64_t *const first = starts.data(), *const last = first + starts.size();
  if (starts.size() < 1) throw py::value_error("chunks begin somewhere, and end");
  Int64Array places(indices.size()), rows(indices.size());
  std::vector<int64_t> of(count);
  std::vector<std::pair<int64_t, int64_t>> found;  // chunk, its samples; ascending
  const int64_t* begin = last;  // of the sample before: the next one often lies in the same chunk
  for (size_t i = 0; i < count; ++i) {
    const int64_t index = indices.data()[i];
    if (index < *first || index >= last[-1]) throw py::index_error("index " + std::to_string(index) + " lies in no chunk");
    if (begin == last || index < *begin || index >= begin[1]) begin = std::upper_bound(first, last, index) - 1;
    of[i] = begin - first;
    const auto at = std::lower_bound(found.begin(), found.end(), std::pair<int64_t, int64_t>(of[i], 0));
    if (at != found.end() && at->first == of[i]) ++at->second;
    else found.insert(at, {of[i], 1});
  }
  py::list chunks, bounds;
  std::vector<int64_t> next;
  int64_t end = 0;
  for (const auto& [chunk, samples] : found) {
    chunks.append(chunk);
    bounds.append(end);
    next.push_back(end);
    end += samples;
  }
  bounds.append(end);
  for (size_t i = 0; i < count; ++i) {
    const auto at = std::lower_bound(found.begin(), found.end(), std::pair<int64_t, int64_t>(of[i], 0)) - found.begin();
    const int64_t place = next[static_cast<size_t>(at)]++;
    places.mutable_data()[place] = static_cast<int64_t>(i);
    rows.mutable_data()[place] = indices.data()[i] - first[of[i]];
  }
  return py::make_tuple(places, rows, chunks, bounds);
}

}  // namespace

void bind_batch_memory(py::module_& m) {
  py::class_<BatchMemory>(m, "BatchMemory")
      .def(py::init<const std::vector<std::pair<std::vector<int64_t>, std::string>>&, int, const std::string&>(), py::arg("fields"),
           py::arg("slots"), py::arg("memory") = "system")
      .def("empty", &BatchMemory::empty, py::arg("rows"))
      .def("overflow_count", &BatchMemory::overflow_count);
  m.def("chunk_shares", &chunk_shares, py::arg("indices"), py::arg("starts"));
  m.def("copy_rows", &copy_rows, py::arg("tables"), py::arg("rows"), py::arg("places"), py::arg("bounds"), py::arg("out"));
}

}  // namespace millrace::python
