// ChunkedArray: boxes of arrays with chunks that lie in files.
#include <tuple>
#include <utility>

#include "arrays/chunked_array.h"
#include "bindings.h"

namespace millrace::python {
namespace {

template <typename T>
using Numbers = py::array_t<T, py::array::c_style | py::array::forcecast>;

codecs::ChunkFilter chunk_filter(const std::pair<std::string, int64_t>& filter) {
  if (filter.first == "deflate") return {codecs::ChunkFilter::Kind::deflate, 1};
  if (filter.first == "fletcher32") return {codecs::ChunkFilter::Kind::fletcher32, 1};
  if (filter.first != "shuffle")
    throw py::value_error("filter '" + filter.first + "' is not deflate, shuffle or fletcher32");
  if (filter.second < 1 || filter.second > INT32_MAX)
    throw py::value_error("shuffle needs the bytes of an element, 1 or more");
  return {codecs::ChunkFilter::Kind::shuffle, static_cast<uint32_t>(filter.second)};
}

std::unique_ptr<arrays::ChunkedArray> new_chunked_array(
    const std::shared_ptr<io::ByteSource>& source, const py::str& name, std::vector<int64_t> shape,
    std::vector<int64_t> chunk, size_t element_bytes, size_t swap_bytes,
    const std::vector<std::pair<std::string, int64_t>>& filters, const py::bytes& fill,
    const Numbers<int64_t>& cells, const Numbers<int64_t>& offsets, const Numbers<int64_t>& sizes,
    const Numbers<uint32_t>& left_out, std::shared_ptr<arrays::ChunkCache> cache) {
  arrays::ArrayForm form{std::move(shape), std::move(chunk), element_bytes, swap_bytes, {}, {}};
  for (const auto& filter : filters) form.filters.push_back(chunk_filter(filter));
  const std::string_view element = fill;
  form.fill.assign(element.begin(), element.end());
  const py::ssize_t count = cells.size();
  if (offsets.size() != count || sizes.size() != count || left_out.size() != count)
    throw py::value_error("cells, offsets, sizes and left_out should have one entry per chunk");
  std::vector<arrays::ChunkPlace> places(static_cast<size_t>(count));
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = {cells.data()[i], offsets.data()[i], sizes.data()[i], left_out.data()[i]};
  const std::string called = to_text(name);
  const py::gil_scoped_release release;  // it sorts
  return std::make_unique<arrays::ChunkedArray>(source, called, std::move(form), std::move(places),
                                                std::move(cache));
}

void read_box(const arrays::ChunkedArray& array,
              const std::vector<std::tuple<int64_t, int64_t, int64_t>>& ranges, py::array& into) {
  std::vector<arrays::AxisRange> box;
  for (const auto& [start, count, step] : ranges) box.push_back({start, count, step});
  if ((into.flags() & py::array::c_style) == 0) throw py::value_error("a box is read into a dense array");
  const std::span<uint8_t> out(static_cast<uint8_t*>(into.mutable_data()),
                               static_cast<size_t>(into.nbytes()));
  const py::gil_scoped_release release;
  array.read(box, out);
}

bool is_number(py::handle part) {
  if (PyLong_CheckExact(part.ptr())) return true;
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> integer;
  integer.call_once_and_store_result([] { return py::module_::import("numpy").attr("integer"); });
  return py::isinstance(part, integer.get_stored());
}

// Reads a part of a key along an axis of `size`; false unless the part is a number or slice inside the axis
// that takes at least one element.
bool axis_range(py::handle part, int64_t size, arrays::AxisRange* range) {
  if (PySlice_Check(part.ptr())) {
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(part.ptr(), &start, &stop, &step) < 0) {
      PyErr_Clear();
      return false;
    }
    if (step < 1) return false;
    const Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
    *range = {start, count, step};
    return count > 0;
  }
  if (!is_number(part)) return false;
  int64_t number = PyNumber_AsSsize_t(part.ptr(), nullptr);  // clipped to Py_ssize_t
  if (number < 0) number += size;
  *range = {number, 1, 1};
  return number >= 0 && number < size;
}

// Returns array[key] as a new array of `dtype`, without the axes that have a number in the key. Returns None
// for keys that are not simple or reach outside: the array's library handles those.
py::object read_key(const arrays::ChunkedArray& array, py::handle key, const py::dtype& dtype) {
  const std::vector<int64_t>& shape = array.form().shape;
  const bool is_tuple = PyTuple_CheckExact(key.ptr());
  const size_t parts = is_tuple ? static_cast<size_t>(PyTuple_GET_SIZE(key.ptr())) : 1;
  if (parts > shape.size() || dtype.itemsize() != static_cast<py::ssize_t>(array.form().element_bytes))
    return py::none();
  std::vector<arrays::AxisRange> box(shape.size());
  std::vector<py::ssize_t> kept;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis >= parts) {
      if (shape[axis] == 0) return py::none();
      box[axis] = {0, shape[axis], 1};
      kept.push_back(shape[axis]);
      continue;
    }
    const py::handle part = is_tuple ? py::handle(PyTuple_GET_ITEM(key.ptr(), axis)) : key;
    if (!axis_range(part, shape[axis], &box[axis])) return py::none();
    if (PySlice_Check(part.ptr())) kept.push_back(box[axis].count);
  }
  py::array made(dtype, std::move(kept));
  const std::span<uint8_t> out(static_cast<uint8_t*>(made.mutable_data()),
                               static_cast<size_t>(made.nbytes()));
  {
    const py::gil_scoped_release release;
    array.read(box, out);
  }
  return made;
}

}  // namespace

void bind_arrays(py::module_& m) {
  py::class_<arrays::ChunkCache, std::shared_ptr<arrays::ChunkCache>>(m, "ChunkCache")
      .def(py::init<size_t>(), py::arg("most_bytes"))
      .def_property_readonly("bytes", &arrays::ChunkCache::bytes);
  py::class_<arrays::ChunkedArray>(m, "ChunkedArray")
      .def(py::init(&new_chunked_array), py::arg("source"), py::arg("name"), py::arg("shape"),
           py::arg("chunk"), py::arg("element_bytes"), py::arg("swap_bytes"), py::arg("filters"),
           py::arg("fill"), py::arg("cells"), py::arg("offsets"), py::arg("sizes"), py::arg("left_out"),
           py::arg("cache") = nullptr)
      .def("read", &read_box, py::arg("box"), py::arg("into"))
      .def("get", &read_key, py::arg("key"), py::arg("dtype"));
}

}  // namespace millrace::python
