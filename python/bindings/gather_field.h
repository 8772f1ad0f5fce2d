// GatherField: a field of a RowGather, from what Python says of it. MappedFile for Python, and what looks for numbers in one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings.h"
#include "collate/row_gather.h"
#include "collate/row_maker.h"
#include "torch_bridge/tensor.h"

namespace millrace::python {

using Int64Array = py::array_t<int64_t, py::array::c_style>;

void bind_mapped_files(py::module_& m);

// (tables, index map, shape of a row, stored dtype, whether they lie in mapped files, dict of what _core.pyi says for it)
class GatherField {
 public:
  explicit GatherField(const py::tuple& parts);

  // False: a tensor was resized, or its memory exchanged or let go, since this was made.
  bool in_place() const;
  size_t made_bytes() const { return maker_ ? maker_->made_bytes() : native.row_bytes; }  // of a row of the batch
  const RowMaker* maker() const { return maker_ ? &*maker_ : nullptr; }
  void write(std::span<const uint8_t* const> rows, uint8_t* out) const;
  // Asks the system to read the rows from disk, without waiting.
  void read_ahead(std::span<const uint8_t* const> rows) const;

  std::vector<int64_t> batch_shape(size_t rows) const {
    std::vector<int64_t> sizes{static_cast<int64_t>(rows)};
    sizes.insert(sizes.end(), row_shape_.begin(), row_shape_.end());
    return sizes;
  }

  RowField native;
  DType type = DType::f32;  // of batches
  bool mapped = false;      // into memory from a file
  bool reads_ahead = false;

 private:
  bool empty(const RowTable& table) const { return table.rows == 0 || native.row_bytes == 0; }
  void add_files(const py::dict& options, RowMakerOptions& maker);

  std::vector<py::object> owners_;  // one per table of `native`
  std::vector<size_t> movable_;     // owners that may be given other memory
  std::optional<Int64Array> map_;   // what native.map looks at
  std::vector<py::object> kept_;    // files, and arrays of borders
  std::vector<int64_t> row_shape_;
  std::optional<RowMaker> maker_;
};

}  // namespace millrace::python
