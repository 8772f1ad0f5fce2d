// GatherField: a field of a RowGather, from what Python says of it. MappedFile for Python, and what looks for
// numbers in one.
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
#include "io/file_mapping.h"
#include "tensors/tensor.h"
#include "tensors/tensor_memory.h"

namespace millrace::python {

using Int64Array = py::array_t<int64_t, py::array::c_style>;

void bind_mapped_files(py::module_& m);

// (tables, index map, shape of a row, stored dtype, whether they lie in mapped files, dict of what _core.pyi
// says for it)
class GatherField {
 public:
  GatherField(const py::tuple& parts, io::FileMappings& mappings);

  // False: a tensor or array has other memory, another form or another element type than when this was made.
  bool in_place() const;
  size_t made_bytes() const {
    return maker_ ? maker_->made_bytes() : native.row_bytes;
  }  // of a row of the batch
  // Before threads read the rows. May run Python, of classes derived from torch.Tensor.
  void hold_tensors();
  // While in_place(): any thread may read the rows, from now on. False: only one that has the GIL.
  bool stays() const { return stays_ && holds_tensors_; }
  const collate::RowMaker* maker() const { return maker_ ? &*maker_ : nullptr; }
  void write(std::span<const uint8_t* const> rows, uint8_t* out) const;
  // Asks the system to read the rows from disk, without waiting.
  void read_ahead(std::span<const uint8_t* const> rows) const;

  std::vector<int64_t> batch_shape(size_t rows) const {
    std::vector<int64_t> sizes{static_cast<int64_t>(rows)};
    sizes.insert(sizes.end(), row_shape_.begin(), row_shape_.end());
    return sizes;
  }

  collate::RowField native;
  base::DType type = base::DType::f32;  // of batches
  bool mapped = false;                  // into memory from a file that may have to be read
  bool reads_ahead = false;

 private:
  // A table: the object with its rows, and the form that it had.
  struct Owner {
    py::object object;
    tensors::TensorField form;  // strides in elements for a tensor; in bytes for an array
    py::object dtype;           // an array's type
    bool movable = true;        // may be given other memory
    bool may_be_mapped = true;  // from a file
  };

  bool empty(const collate::RowTable& table) const { return table.rows == 0 || native.row_bytes == 0; }
  static Owner owner_of(py::object object);
  collate::StridedRow strided_row(const Owner& owner, size_t item_bytes) const;
  bool is_in_place(const Owner& owner, const collate::RowTable& rows) const;
  // What an array lies in stays while this lives. Returns whether it may be a mapped file.
  bool hold(py::object memory);
  void add_files(const py::dict& options, io::FileMappings& mappings, collate::RowMakerOptions& maker);

  std::vector<Owner> owners_;      // one per table of `native`
  std::optional<Int64Array> map_;  // what native.map looks at
  // Threads read the memory without the GIL, while the user may do anything to the objects that it belongs
  // to. So that it stays: torch's storages are kept by owners of their own; of numpy's arrays there are weak
  // references, which make resize() an error; and buffers are exported, which makes an error of closing or
  // resizing a map, a bytearray or a memoryview.
  std::vector<std::shared_ptr<const void>> held_;
  bool stays_ = true;
  bool holds_tensors_ = false;    // tables that are tensors: not before a thread is to read them
  std::vector<py::object> kept_;  // weak references and exports; files, and arrays of borders
  std::vector<int64_t> row_shape_;
  int64_t row_begin_ = 0, row_end_ = 0;  // the bytes of a row, from its address on
  std::optional<collate::RowMaker> maker_;
};

}  // namespace millrace::python
