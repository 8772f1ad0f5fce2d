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

DType known_type(const std::string& name) {
  const auto type = dtype_named(name);
  if (!type) throw py::value_error("dtype '" + name + "' is not one that batches can have");
  return *type;
}

// Where the rows of a tensor or array lie now.
RowTable rows_now(const py::object& owner) {
  if (!py::isinstance<py::array>(owner)) return tensor_rows(owner.ptr());
  const auto array = py::reinterpret_borrow<py::array>(owner);
  return {static_cast<const uint8_t*>(array.data()), array.shape(0), array.strides(0)};
}

// An array that is a read-only view of something else cannot be resized.
bool may_move(const py::object& owner) {
  if (!py::isinstance<py::array>(owner)) return true;
  const auto array = py::reinterpret_borrow<py::array>(owner);
  return array.owndata() || array.writeable();
}

template <class T>
std::optional<T> given(const py::dict& options, const char* name) {
  if (!options.contains(name) || options[name].is_none()) return std::nullopt;
  return py::cast<T>(options[name]);
}

// The stretch of memory that a table's rows lie in.
std::pair<const uint8_t*, const uint8_t*> span_of(const RowTable& table, size_t row_bytes) {
  if (table.rows == 0) return {table.base, table.base};
  const uint8_t* const last = table.base + (table.rows - 1) * table.stride_bytes;
  return {std::min(table.base, last), std::max(table.base, last) + row_bytes};
}

py::array_t<int64_t> positions(const py::array& numbers, const std::string& dtype, int64_t value) {
  const DType type = known_type(dtype);
  const auto size = static_cast<py::ssize_t>(dtype_bytes(type));
  if (numbers.ndim() != 1 || numbers.itemsize() != size || (numbers.size() > 1 && numbers.strides(0) != size))
    throw py::value_error("numbers are a dense array of one dimension, of the dtype that is named");
  std::vector<int64_t> found;
  bool whole = false;
  {
    const void* const data = numbers.data();
    const auto count = static_cast<size_t>(numbers.size());
    const py::gil_scoped_release release;
    whole = find_all(data, type, count, value, found);
  }
  if (!whole) throw Error(ErrorKind::corrupt_data, "the file was cut short while it was read; write a new one beside it instead");
  return py::array_t<int64_t>(static_cast<py::ssize_t>(found.size()), found.data());
}

void advise(const MappedFile& file, const std::string& access) {
  file.advise(access == "random"       ? MappedFile::Access::random
              : access == "sequential" ? MappedFile::Access::sequential
                                       : MappedFile::Access::normal);
}

}  // namespace

GatherField::GatherField(const py::tuple& parts) {
  const auto [tables, map, shape, dtype, from_file, options] =
      py::cast<std::tuple<py::sequence, py::object, std::vector<int64_t>, std::string, bool, py::dict>>(parts);
  row_shape_ = shape;
  mapped = from_file;
  RowMakerOptions maker;
  maker.stored = known_type(dtype);
  maker.made = type = known_type(given<std::string>(options, "made").value_or(dtype));
  maker.elements = 1;
  for (const int64_t size : row_shape_) maker.elements *= static_cast<size_t>(size);
  native.row_bytes = maker.elements * dtype_bytes(maker.stored);
  for (const py::handle part : tables) {
    owners_.push_back(py::reinterpret_borrow<py::object>(part));
    native.tables.push_back(rows_now(owners_.back()));
    if (may_move(owners_.back())) movable_.push_back(owners_.size() - 1);
  }
  native.ends = table_ends(native.tables);
  if (!map.is_none()) {
    map_ = py::cast<Int64Array>(map);
    native.map = std::span(map_->data(), static_cast<size_t>(map_->size()));
  }
  maker.highest = given<int64_t>(options, "highest");
  if (const auto excluded = given<py::tuple>(options, "excluded")) {
    const auto [separator, behind, value] = py::cast<std::tuple<std::optional<int64_t>, int64_t, int64_t>>(*excluded);
    maker.excluded = Exclusion{separator, behind, value};
  }
  maker.guarded = mapped;
  if (!mapped && maker.made == maker.stored && !maker.highest && !maker.excluded) return;
  reads_ahead = mapped && given<bool>(options, "reads_ahead").value_or(false);
  add_files(options, maker);
  maker_.emplace(std::move(maker));
}

void GatherField::add_files(const py::dict& options, RowMakerOptions& maker) {
  const auto files = given<py::sequence>(options, "files");
  const auto borders = given<py::sequence>(options, "borders");
  for (size_t i = 0; i < native.tables.size(); ++i) {
    const auto [begin, end] = span_of(native.tables[i], native.row_bytes);
    RowFile file{begin, end, {}, -1, {}, begin, {}};
    if (files && !(*files)[i].is_none()) {
      const py::object given_file = (*files)[i];
      if (py::isinstance<MappedFile>(given_file)) {
        auto mapping = py::cast<std::shared_ptr<const MappedFile>>(given_file);
        file.begin = mapping->bytes().data();
        file.end = file.begin + mapping->bytes().size();
        file.path = mapping->path();
        file.offset = 0;
        file.shrank = [mapping] { return mapping->shrank(); };
      } else {
        file.path = from_path(given_file);
      }
    }
    if (borders && !(*borders)[i].is_none()) {
      const auto [first, array] = py::cast<std::pair<int64_t, Int64Array>>((*borders)[i]);
      kept_.push_back(array);
      file.numbers = file.begin + first;
      file.borders = std::span(array.data(), static_cast<size_t>(array.size()));
    }
    // Several tables may lie in one file.
    const auto same = std::find_if(maker.files.begin(), maker.files.end(), [&](const RowFile& f) { return f.begin == file.begin; });
    if (same == maker.files.end() || file.offset < 0) maker.files.push_back(std::move(file));
  }
}

bool GatherField::in_place() const {
  for (const size_t i : movable_)
    if (const RowTable now = rows_now(owners_[i]); now != native.tables[i] || (now.base == nullptr && !empty(now))) return false;
  return true;
}

void GatherField::write(std::span<const uint8_t* const> rows, uint8_t* out) const {
  if (maker_) maker_->make(rows, out, false);
  else gather_rows(rows, native.row_bytes, out);
}

void GatherField::read_ahead(std::span<const uint8_t* const> rows) const {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const uint8_t* row : rows) {
    const uintptr_t first = reinterpret_cast<uintptr_t>(row) / page * page;
    ::madvise(reinterpret_cast<void*>(first), reinterpret_cast<uintptr_t>(row) + native.row_bytes - first, MADV_WILLNEED);
  }
}

void bind_mapped_files(py::module_& m) {
  py::class_<MappedFile, std::shared_ptr<MappedFile>>(m, "MappedFile", py::buffer_protocol())
      .def(py::init([](py::handle path) { return std::make_shared<MappedFile>(from_path(path)); }), py::arg("path"))
      .def_property_readonly("path", [](const MappedFile& file) { return to_path(file.path()); })
      .def_property_readonly("size", [](const MappedFile& file) { return file.bytes().size(); })
      .def("advise", &advise, py::arg("access"))
      .def_buffer([](const MappedFile& file) {
        return py::buffer_info(const_cast<uint8_t*>(file.bytes().data()), 1, py::format_descriptor<uint8_t>::format(), 1,
                               {static_cast<py::ssize_t>(file.bytes().size())}, {py::ssize_t{1}}, true);
      });
  m.def("positions", &positions, py::arg("numbers"), py::arg("dtype"), py::arg("value"));
  m.def("widens", [](const std::string& from, const std::string& to) { return widens(known_type(from), known_type(to)); },
        py::arg("stored"), py::arg("made"));
}

}  // namespace millrace::python
