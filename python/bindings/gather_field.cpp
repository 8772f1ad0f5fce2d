#include "gather_field.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "collate/token_kernels.h"
#include "collate/token_scan.h"
#include "io/mapped_file.h"
#include "millrace/error.h"

namespace millrace::python {
namespace {

base::DType known_type(const std::string& name) {
  const auto type = base::dtype_named(name);
  if (!type) throw py::value_error("dtype '" + name + "' is not one that batches can have");
  return *type;
}

// Returns the current place of an array's rows.
collate::RowTable rows_now(const py::object& owner) {
  const auto array = py::reinterpret_borrow<py::array>(owner);
  return {static_cast<const uint8_t*>(array.data()), array.shape(0), array.strides(0)};
}

template <class T>
std::optional<T> given(const py::dict& options, const char* name) {
  PyObject* const value = PyDict_GetItemString(options.ptr(), name);
  if (value == nullptr || value == Py_None) return std::nullopt;
  return py::cast<T>(py::handle(value));
}

// Returns the span of memory of a table's rows; each row reaches from its address + `begin` to + `end`.
std::pair<const uint8_t*, const uint8_t*> span_of(const collate::RowTable& table, int64_t begin,
                                                  int64_t end) {
  if (table.rows == 0) return {table.base, table.base};
  const uint8_t* const last = table.base + (table.rows - 1) * table.stride_bytes;
  return {std::min(table.base, last) + begin, std::max(table.base, last) + end};
}

bool is_array(const py::object& object) { return py::isinstance<py::array>(object); }

py::array_t<int64_t> positions(const py::array& numbers, const std::string& dtype, int64_t value) {
  const base::DType type = known_type(dtype);
  const auto size = static_cast<py::ssize_t>(base::dtype_bytes(type));
  if (numbers.ndim() != 1 || numbers.itemsize() != size || (numbers.size() > 1 && numbers.strides(0) != size))
    throw py::value_error("numbers are a dense array of one dimension, of the dtype that is named");
  std::vector<int64_t> found;
  bool whole = false;
  {
    const void* const data = numbers.data();
    const auto count = static_cast<size_t>(numbers.size());
    const py::gil_scoped_release release;
    whole = collate::find_all(data, type, count, value, found);
  }
  if (!whole)
    throw Error(ErrorKind::corrupt_data,
                "the file was cut short while it was read; write a new one beside it instead");
  return py::array_t<int64_t>(static_cast<py::ssize_t>(found.size()), found.data());
}

void advise(const io::MappedFile& file, const std::string& access) {
  file.advise(access == "random"       ? io::MappedFile::Access::random
              : access == "sequential" ? io::MappedFile::Access::sequential
                                       : io::MappedFile::Access::normal);
}

}  // namespace

GatherField::Owner GatherField::owner_of(py::object object) {
  Owner owner;
  if (!is_array(object)) {
    owner.form = tensors::form_of(object.ptr());
  } else {
    const auto array = py::reinterpret_borrow<py::array>(object);
    owner.form.sizes.assign(array.shape(), array.shape() + array.ndim());
    owner.form.strides.assign(array.strides(), array.strides() + array.ndim());
    owner.dtype = array.dtype();
    // A read-only view of something else cannot be resized.
    owner.movable = array.owndata() || array.writeable();
  }
  owner.object = std::move(object);
  return owner;
}

// How a row of `owner` lies. Its form may be another than the field's (a flat array), if its rows are dense.
collate::StridedRow GatherField::strided_row(const Owner& owner, size_t item_bytes) const {
  const auto item = is_array(owner.object) ? int64_t{1} : static_cast<int64_t>(item_bytes);
  std::vector<collate::RowAxis> axes;
  for (size_t axis = 1; axis < owner.form.sizes.size(); ++axis)
    axes.push_back({owner.form.sizes[axis], owner.form.strides[axis] * item});
  return collate::StridedRow(axes, item_bytes);
}

GatherField::GatherField(const py::tuple& parts, io::FileMappings& mappings) {
  const auto [tables, map, shape, dtype, from_file, options] =
      py::cast<std::tuple<py::sequence, py::object, std::vector<int64_t>, std::string, bool, py::dict>>(
          parts);
  row_shape_ = shape;
  mapped = from_file;
  collate::RowMakerOptions maker;
  maker.stored = known_type(dtype);
  maker.made = type = known_type(given<std::string>(options, "made").value_or(dtype));
  maker.elements = 1;
  for (const int64_t size : row_shape_) maker.elements *= static_cast<size_t>(size);
  native.row_bytes = maker.elements * base::dtype_bytes(maker.stored);
  row_end_ = static_cast<int64_t>(native.row_bytes);
  std::optional<collate::StridedRow> first;
  for (const py::handle part : tables) {
    Owner& owner = owners_.emplace_back(owner_of(py::reinterpret_borrow<py::object>(part)));
    if (is_array(owner.object)) {
      owner.may_be_mapped = hold(owner.object);
      native.tables.push_back(rows_now(owner.object));
    } else {
      const tensors::MemoryFacts facts = tensors::memory_facts(owner.object.ptr());
      owner.may_be_mapped = facts.may_be_mapped;
      native.tables.push_back(tensors::tensor_rows(owner.object.ptr()));
      if (facts.is_cut_short) native.tables.back().base = nullptr;
    }
    collate::StridedRow row = strided_row(owner, base::dtype_bytes(maker.stored));
    const bool empty = native.tables.back().rows == 0;
    if (row.row_bytes() != native.row_bytes || (!empty && first && row != *first))
      throw py::value_error("the tables of a field hold rows of its shape, whose values lie in the same way");
    if (!first && !empty) first = std::move(row);
  }
  if (first && !first->is_dense()) {
    row_begin_ = first->begin();
    row_end_ = first->end();
    maker.strided = std::move(first);
  }
  native.ends = collate::table_ends(native.tables);
  if (!map.is_none()) {
    map_ = py::cast<Int64Array>(map);
    hold(*map_);
    if (!stays_) map_ = py::cast<Int64Array>(map_->attr("copy")());
    native.map = std::span(map_->data(), static_cast<size_t>(map_->size()));
  }
  maker.highest = given<int64_t>(options, "highest");
  if (const auto excluded = given<py::tuple>(options, "excluded")) {
    const auto [separator, behind, value] =
        py::cast<std::tuple<std::optional<int64_t>, int64_t, int64_t>>(*excluded);
    maker.excluded = collate::Exclusion{separator, behind, value};
  }
  maker.guarded = mapped;
  add_files(options, mappings, maker);
  if (!maker.guarded && maker.made == maker.stored && !maker.highest && !maker.excluded && !maker.strided)
    return;
  reads_ahead = mapped && !maker.strided && given<bool>(options, "reads_ahead").value_or(false);
  maker_.emplace(std::move(maker));
}

bool GatherField::hold(py::object memory) {
  while (!memory.is_none()) {
    if (is_array(memory)) {
      kept_.push_back(py::weakref(memory));
      memory = memory.attr("base");
    } else if (tensors::is_tensor(memory.ptr())) {
      tensors::HeldMemory held = tensors::hold_memory(memory.ptr());
      stays_ = stays_ && held.stays;
      held_.push_back(std::move(held.keeper));
      return tensors::memory_facts(memory.ptr()).may_be_mapped;
    } else if (PyObject_CheckBuffer(memory.ptr())) {
      kept_.push_back(py::reinterpret_steal<py::object>(PyMemoryView_FromObject(memory.ptr())));
      if (!kept_.back()) throw py::error_already_set();
      return true;
    } else if (memory = py::getattr(memory, "base", py::none());
               memory.is_none()) {  // numpy's as_strided() leaves such an object
      return true;
    }
  }
  return false;  // an array with its own memory
}

void GatherField::hold_tensors() {
  if (holds_tensors_ || !in_place()) return;
  std::vector<std::shared_ptr<const void>> keepers;
  bool stay = true;
  for (const Owner& owner : owners_) {
    if (is_array(owner.object)) continue;
    tensors::HeldMemory held = tensors::hold_memory(owner.object.ptr());
    stay = stay && held.stays;
    keepers.push_back(std::move(held.keeper));
  }
  if (!in_place()) return;  // the tensors moved, perhaps before they were held
  held_.insert(held_.end(), keepers.begin(), keepers.end());
  stays_ = stays_ && stay;
  holds_tensors_ = true;
}

// Adds the files that Python names and the mapped files that the system knows. `maker` is guarded if there
// are any.
void GatherField::add_files(const py::dict& options, io::FileMappings& mappings,
                            collate::RowMakerOptions& maker) {
  const auto files = given<py::sequence>(options, "files");
  const auto borders = given<py::sequence>(options, "borders");
  for (size_t i = 0; i < native.tables.size(); ++i) {
    const auto [begin, end] = span_of(native.tables[i], row_begin_, row_end_);
    if (begin == end) continue;
    collate::RowFile file{begin, end, {}, -1, {}, begin, {}};
    const py::object given_file = files ? py::object((*files)[i]) : py::none();
    if (py::isinstance<io::MappedFile>(given_file)) {
      auto mapping = py::cast<std::shared_ptr<const io::MappedFile>>(given_file);
      file.begin = mapping->bytes().data();
      file.end = file.begin + mapping->bytes().size();
      file.path = mapping->path();
      file.offset = 0;
      file.shrank = [mapping] { return mapping->shrank(); };
    } else {
      const auto mapping = owners_[i].may_be_mapped ? mappings.at(begin) : std::nullopt;
      if (!given_file.is_none())
        file.path = from_path(given_file);
      else if (mapping)
        file.path = mapping->path;
      if (mapping) {
        maker.guarded = true;
        mapped |= mapping->on_disk;
        file.offset = mapping->offset + (begin - mapping->begin);
        file.shrank = [watch = io::ShrinkWatch(mapping->path, file.offset + (end - begin))] {
          return watch.shrank();
        };
      } else if (!maker.guarded) {
        continue;
      }
    }
    if (borders && !(*borders)[i].is_none()) {
      const auto [first, array] = py::cast<std::pair<int64_t, Int64Array>>((*borders)[i]);
      kept_.push_back(array);
      file.numbers = file.begin + first;
      file.borders = std::span(array.data(), static_cast<size_t>(array.size()));
    }
    // Several tables may lie in one file.
    const auto same = std::find_if(maker.files.begin(), maker.files.end(),
                                   [&](const collate::RowFile& f) { return f.begin == file.begin; });
    if (same == maker.files.end() || file.offset < 0) maker.files.push_back(std::move(file));
  }
}

bool GatherField::is_in_place(const Owner& owner, const collate::RowTable& rows) const {
  if (!is_array(owner.object)) return tensors::is_in_place(owner.object.ptr(), owner.form, rows);
  const auto array = py::reinterpret_borrow<py::array>(owner.object);
  const auto& sizes = owner.form.sizes;
  const auto& strides = owner.form.strides;
  return array.dtype().is(owner.dtype) &&
         std::equal(sizes.begin(), sizes.end(), array.shape(), array.shape() + array.ndim()) &&
         std::equal(strides.begin(), strides.end(), array.strides(), array.strides() + array.ndim()) &&
         rows_now(owner.object) == rows && (rows.base != nullptr || empty(rows));
}

bool GatherField::in_place() const {
  for (size_t i = 0; i < owners_.size(); ++i)
    if (owners_[i].movable && !is_in_place(owners_[i], native.tables[i])) return false;
  return true;
}

void GatherField::write(std::span<const uint8_t* const> rows, uint8_t* out) const {
  if (maker_)
    maker_->make(rows, out, false);
  else
    collate::gather_rows(rows, native.row_bytes, out);
}

void GatherField::read_ahead(std::span<const uint8_t* const> rows) const {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const uint8_t* row : rows) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(row) / page * page;
    ::madvise(reinterpret_cast<void*>(first), reinterpret_cast<uintptr_t>(row) + native.row_bytes - first,
              MADV_WILLNEED);
  }
}

void bind_mapped_files(py::module_& m) {
  py::class_<io::MappedFile, std::shared_ptr<io::MappedFile>>(m, "MappedFile", py::buffer_protocol())
      .def(py::init([](py::handle path) { return std::make_shared<io::MappedFile>(from_path(path)); }),
           py::arg("path"))
      .def_property_readonly("path", [](const io::MappedFile& file) { return to_path(file.path()); })
      .def_property_readonly("size", [](const io::MappedFile& file) { return file.bytes().size(); })
      .def("advise", &advise, py::arg("access"))
      .def_buffer([](const io::MappedFile& file) {
        return py::buffer_info(const_cast<uint8_t*>(file.bytes().data()), 1,
                               py::format_descriptor<uint8_t>::format(), 1,
                               {static_cast<py::ssize_t>(file.bytes().size())}, {py::ssize_t{1}}, true);
      });
  m.def("positions", &positions, py::arg("numbers"), py::arg("dtype"), py::arg("value"));
  m.def(
      "widens",
      [](const std::string& from, const std::string& to) {
        return collate::widens(known_type(from), known_type(to));
      },
      py::arg("stored"), py::arg("made"));
}

}  // namespace millrace::python
