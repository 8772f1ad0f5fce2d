// LineIndex and LineFiles: the lines of text files, any of them one read away. Unpacking: a packed file as a
// plain one.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "bindings.h"
#include "io/byte_stream.h"
#include "io/saved_file.h"
#include "line_values.h"
#include "millrace/error.h"
#include "shard_sources.h"
#include "sources/line_files.h"
#include "sources/line_index.h"

namespace millrace::python {
namespace {

// Unpacks piece by piece into a descriptor, so that the caller can stop in between.
class Unpacking {
 public:
  Unpacking(const py::object& source, int fd, std::string into) : fd_(fd), into_(std::move(into)) {
    const auto opened = source_of(source);
    const py::gil_scoped_release release;
    stream_ = io::open_stream(opened);
    name_ = opened->name();
  }

  bool packed() const { return stream_->packed(); }
  int64_t position() const { return stream_->position(); }

  bool step(int64_t bytes) {
    const py::gil_scoped_release release;
    std::vector<uint8_t> buffer(size_t{1} << 20);
    for (int64_t done = 0; done < bytes;) {
      const size_t got = stream_->read(buffer);
      write({buffer.data(), got});
      if (got < buffer.size()) return false;
      done += static_cast<int64_t>(got);
    }
    return true;
  }

 private:
  void write(std::span<const uint8_t> left) const {
    while (!left.empty()) {
      const ssize_t wrote = ::write(fd_, left.data(), left.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0)
        throw Error(ErrorKind::system,
                    "cannot keep what " + name_ + " unpacks to in '" + into_ +
                        "': " + std::generic_category().message(errno) +
                        "; make room there, or name another folder for it: index_dir=",
                    into_, -1, errno);
      left = left.subspan(static_cast<size_t>(wrote));
    }
  }

  const int fd_;
  const std::string into_;
  std::string name_;
  std::unique_ptr<io::ByteStream> stream_;
};

// Lines without their newline as text; those that are no UTF-8 are None and in the second list.
py::tuple texts_of(const sources::LineFiles& files, const py::array_t<int64_t, py::array::c_style>& rows) {
  sources::LineBatch batch;
  read_lines(files, rows, batch);
  py::list texts(batch.lines.size()), refused;
  for (size_t row = 0; row < batch.lines.size(); ++row) {
    const auto content = without_newline(batch.lines[row]);
    PyObject* text = nullptr;
    if (content.data() != nullptr)
      text = PyUnicode_DecodeUTF8(content.data(), static_cast<Py_ssize_t>(content.size()), nullptr);
    if (text == nullptr) {
      PyErr_Clear();
      refused.append(row);
      texts[row] = py::none();
    } else {
      texts[row] = py::reinterpret_steal<py::object>(text);
    }
  }
  return py::make_tuple(std::move(texts), std::move(refused));
}

}  // namespace

void read_lines(const sources::LineFiles& files, const py::array_t<int64_t, py::array::c_style>& rows,
                sources::LineBatch& batch) {
  const std::span<const int64_t> wanted(rows.data(), static_cast<size_t>(rows.size()));
  const py::gil_scoped_release release;
  files.read(wanted, batch);
}

std::string_view without_newline(const sources::LineBatch::Line& line) {
  std::string_view text(reinterpret_cast<const char*>(line.data), line.data == nullptr ? 0 : line.bytes);
  if (const size_t end = text.find('\n'); end != std::string_view::npos) {  // blank lines may follow
    text = text.substr(0, end);
    if (text.ends_with('\r')) text.remove_suffix(1);
  }
  return text;
}

void bind_lines(py::module_& m) {
  m.def(
      "content_mark",
      [](const py::object& source) {
        const auto file = source_of(source);
        const py::gil_scoped_release release;
        return io::content_mark(*file);
      },
      py::arg("source"));

  py::class_<sources::LineIndex, std::shared_ptr<sources::LineIndex>>(m, "LineIndex")
      .def_static(
          "load",
          [](const py::object& path) {
            const std::string file = from_path(path);
            const py::gil_scoped_release release;
            return std::make_shared<sources::LineIndex>(sources::LineIndex::load(file));
          },
          py::arg("path"))
      .def(
          "save",
          [](const sources::LineIndex& index, const py::object& path, uint64_t mark) {
            const std::string file = from_path(path);
            const py::gil_scoped_release release;
            index.save(file, mark);
          },
          py::arg("path"), py::arg("mark") = 0)
      .def_property_readonly("mark", &sources::LineIndex::mark)
      .def("__len__", &sources::LineIndex::size)
      .def_property_readonly("source_bytes", &sources::LineIndex::source_bytes)
      .def_property_readonly("keeps_blank", &sources::LineIndex::keeps_blank)
      .def_property_readonly("memory_bytes", &sources::LineIndex::memory_bytes);

  py::class_<sources::LineIndexBuilder>(m, "LineIndexBuilder")
      .def(py::init([](const py::object& source, bool keep_blank) {
             const auto file = source_of(source);
             const py::gil_scoped_release release;
             return std::make_unique<sources::LineIndexBuilder>(file, keep_blank);
           }),
           py::arg("source"), py::arg("keep_blank") = false)
      .def("step", &sources::LineIndexBuilder::step, py::arg("bytes"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("position", &sources::LineIndexBuilder::position)
      .def("finish", [](sources::LineIndexBuilder& builder) {
        return std::make_shared<sources::LineIndex>(builder.finish());
      });

  py::class_<Unpacking>(m, "Unpacking")
      .def(py::init([](const py::object& source, int fd, const py::object& into) {
             return std::make_unique<Unpacking>(source, fd, from_path(into));
           }),
           py::arg("source"), py::arg("fd"), py::arg("into") = "")
      .def_property_readonly("packed", &Unpacking::packed)
      .def_property_readonly("position", &Unpacking::position)
      .def("step", &Unpacking::step, py::arg("bytes"));

  py::class_<sources::LineFiles, std::shared_ptr<sources::LineFiles>>(m, "LineFiles")
      .def(py::init([](const std::vector<std::shared_ptr<io::ByteSource>>& sources,
                       const std::vector<std::shared_ptr<sources::LineIndex>>& indexes,
                       int64_t max_line_bytes) {
             if (sources.size() != indexes.size())
               throw py::value_error("there should be as many indexes as sources");
             return std::make_shared<sources::LineFiles>(
                 std::vector<std::shared_ptr<const io::ByteSource>>(sources.begin(), sources.end()),
                 std::vector<std::shared_ptr<const sources::LineIndex>>(indexes.begin(), indexes.end()),
                 max_line_bytes);
           }),
           py::arg("sources"), py::arg("indexes"), py::arg("max_line_bytes"))
      .def("__len__", &sources::LineFiles::size)
      .def(
          "place",
          [](const sources::LineFiles& files, int64_t line) {
            const sources::LineFiles::Place at = files.place(line);
            return py::make_tuple(at.file, at.range.begin, at.range.end);
          },
          py::arg("line"))
      .def(
          "lines_before",
          [](const sources::LineFiles& files, size_t file, int64_t offset) {
            return sources::LineIndex::lines_before(files.source(file), offset);
          },
          py::arg("file"), py::arg("offset"), py::call_guard<py::gil_scoped_release>())
      .def("texts", &texts_of, py::arg("lines"))
      .def(
          "will_read",
          [](const sources::LineFiles& files, const py::array_t<int64_t, py::array::c_style>& lines) {
            files.will_read({lines.data(), static_cast<size_t>(lines.size())});
          },
          py::arg("lines"));
}

}  // namespace millrace::python
