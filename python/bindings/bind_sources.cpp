// PathTable, the listing of class folders, and where samples' bytes lie.
#include <algorithm>

#include "bindings.h"
#include "sources/arrow_pictures.h"
#include "sources/image_folder.h"
#include "sources/sample_files.h"

namespace millrace::python {
namespace {

using PathTablePtr = std::shared_ptr<sources::PathTable>;  // shared with every ImageDataset made from it

PathTablePtr make_path_table(const py::sequence& paths) {
  auto table = std::make_shared<sources::PathTable>();
  for (const py::handle path : paths) table->append(from_path(path));
  return table;
}

py::tuple list_folder(const py::object& root, std::vector<std::string> extensions, bool allow_empty,
                      int threads) {
  const std::string folder = from_path(root);
  sources::ImageFolderListing listing;
  {
    py::gil_scoped_release release;
    listing = sources::list_image_folder(folder, {std::move(extensions), allow_empty, threads});
  }
  py::list classes;
  for (const std::string& name : listing.classes) classes.append(to_path(name));
  py::array_t<int64_t> labels(static_cast<py::ssize_t>(listing.labels.size()), listing.labels.data());
  return py::make_tuple(classes, std::make_shared<sources::PathTable>(std::move(listing.paths)), labels);
}

// Exports the memory of an object for as long as the result lives, so that no code frees or resizes it.
std::shared_ptr<const py::buffer_info> exported(const py::buffer& object) {
  return {new py::buffer_info(object.request()), [](const py::buffer_info* kept) {
            if (!Py_IsInitialized()) return;
            const py::gil_scoped_acquire gil;
            delete kept;
          }};
}

// `array`: of shape (samples, height, width, 3), of any strides.
std::shared_ptr<sources::PixelFiles> pixel_files(const py::buffer& array) {
  const auto info = exported(array);
  if (info->ndim != 4 || info->itemsize != 1 || info->format != py::format_descriptor<uint8_t>::format() ||
      info->shape[3] != 3 || info->shape[1] < 1 || info->shape[2] < 1)
    throw py::value_error("pixels must be a uint8 array of shape (samples, height, width, 3)");
  const sources::Pixels first{static_cast<const uint8_t*>(info->ptr),
                              static_cast<int32_t>(info->shape[2]),
                              static_cast<int32_t>(info->shape[1]),
                              info->strides[1],
                              info->strides[2],
                              info->strides[3]};
  return std::make_shared<sources::PixelFiles>(info, first, info->shape[0], info->strides[0]);
}

using Exports = std::vector<std::shared_ptr<const py::buffer_info>>;

std::span<const uint8_t> bytes_of(const py::handle& object, Exports& kept) {
  if (object.is_none()) return {};
  kept.push_back(exported(py::cast<py::buffer>(object)));
  const py::buffer_info& info = *kept.back();
  if (info.ndim != 1 || (info.size > 1 && info.strides[0] != info.itemsize))
    throw py::value_error("the parts of a column must be dense arrays of one dimension");
  return {static_cast<const uint8_t*>(info.ptr), static_cast<size_t>(info.size * info.itemsize)};
}

sources::ArrowPictures::Strings strings_of(const py::handle& pair, size_t rows, Exports& kept) {
  if (pair.is_none()) return {};
  const auto parts = py::cast<py::tuple>(pair);
  const std::span<const uint8_t> offsets = bytes_of(parts[0], kept);
  if (offsets.size() != (rows + 1) * sizeof(int32_t))
    throw py::value_error("a chunk of " + std::to_string(rows) + " rows has one int32 offset more");
  return {offsets.data(), bytes_of(parts[1], kept)};
}

std::shared_ptr<sources::ArrowPictures> arrow_pictures(const std::string& column,
                                                       const py::sequence& chunks) {
  std::vector<sources::ArrowPictures::Chunk> made;
  for (const py::handle given : chunks) {
    const auto parts = py::cast<py::tuple>(given);
    auto kept = std::make_shared<Exports>();
    sources::ArrowPictures::Chunk chunk;
    chunk.kinds = bytes_of(parts[0], *kept);
    chunk.bytes = strings_of(parts[1], chunk.kinds.size(), *kept);
    chunk.paths = strings_of(parts[2], chunk.kinds.size(), *kept);
    chunk.keeper = kept;
    made.push_back(std::move(chunk));
  }
  return std::make_shared<sources::ArrowPictures>(column, std::move(made));
}

}  // namespace

void bind_sources(py::module_& m) {
  py::class_<sources::PathTable, PathTablePtr>(m, "PathTable")
      .def(py::init(&make_path_table), py::arg("paths"))
      .def("__len__", &sources::PathTable::size)
      .def("__getitem__",
           [](const sources::PathTable& table, int64_t i) {
             const auto n = static_cast<int64_t>(table.size());
             if (i < -n || i >= n)
               throw py::index_error("path index " + std::to_string(i) + " is out of range for " +
                                     std::to_string(n));
             return to_path(table.path(static_cast<size_t>(i < 0 ? i + n : i)));
           })
      .def_property_readonly("memory_bytes", &sources::PathTable::memory_bytes)
      .def(py::pickle(
          [](const sources::PathTable& table) {
            py::list tails;
            for (size_t i = 0; i < table.size(); ++i) tails.append(to_path(table.tail(i)));
            return py::make_tuple(to_path(table.prefix()), tails);
          },
          [](const py::tuple& state) {
            PathTablePtr table = make_path_table(state[1]);
            table->set_prefix(from_path(state[0]));
            return table;
          }));
  py::class_<sources::SampleFiles, std::shared_ptr<sources::SampleFiles>>(m, "SampleFiles")
      .def("__len__", &sources::SampleFiles::size)
      .def(
          "name", [](const sources::SampleFiles& files, int64_t index) { return to_path(files.name(index)); },
          py::arg("index"))
      .def(
          "read",
          [](const sources::SampleFiles& files, int64_t index) {
            io::FileBuffer file;
            {
              const py::gil_scoped_release release;
              files.read(index, file);
            }
            return py::bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
          },
          py::arg("index"));
  py::class_<sources::PathFiles, sources::SampleFiles, std::shared_ptr<sources::PathFiles>>(m, "PathFiles")
      .def(py::init([](const PathTablePtr& paths) { return std::make_shared<sources::PathFiles>(paths); }),
           py::arg("paths"));
  py::class_<sources::PixelFiles, sources::SampleFiles, std::shared_ptr<sources::PixelFiles>>(m, "PixelFiles")
      .def(py::init(&pixel_files), py::arg("pixels"));
  py::class_<sources::ArrowPictures, sources::SampleFiles, std::shared_ptr<sources::ArrowPictures>>(
      m, "ArrowPictures")
      .def(py::init(&arrow_pictures), py::arg("column"), py::arg("chunks"));
  m.def("list_image_folder", &list_folder, py::arg("root"), py::arg("extensions"), py::arg("allow_empty"),
        py::arg("threads") = 0);
}

}  // namespace millrace::python
