// ByteSource: files and objects of stores, opened by Python code and read by the native readers. BlockFile,
// which Python fills. CachedFile, for files that the disk cache has whole.
#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "bindings.h"
#include "io/block_file.h"
#include "io/byte_source.h"
#include "io/cached_file.h"
#include "io/source_pool.h"
#include "millrace/error.h"
#include "shard_sources.h"

namespace millrace::python {
namespace {

py::bytes read_at(const io::ByteSource& source, int64_t offset, int64_t size) {
  if (offset < 0 || size < 0) throw py::value_error("offset and size should be 0 or more");
  return read_bytes(source, offset, size);
}

// Called every 50 ms by waits in BlockFile: Ctrl-C raises in the main thread, the only one that runs
// handlers.
void check_signals() {
  if (::gettid() != ::getpid()) return;
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

std::shared_ptr<io::BlockFile> new_block_file(const py::str& name, int64_t size, int64_t block_bytes,
                                              int cache_fd, int map_fd, int64_t map_offset, int wake_fd,
                                              bool sequential, int64_t max_held_bytes) {
  io::BlockFileOptions options;
  options.name = to_text(name);
  options.size = size;
  options.block_bytes = block_bytes;
  options.cache_fd = cache_fd;
  options.map_fd = map_fd;
  options.map_offset = map_offset;
  options.wake_fd = wake_fd;
  options.sequential = sequential;
  options.max_held_bytes = max_held_bytes;
  options.while_waiting = check_signals;
  return std::make_shared<io::BlockFile>(std::move(options));
}

// A view of a contiguous buffer, let go with the GIL held.
class BufferView {
 public:
  explicit BufferView(const py::object& object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  std::span<const uint8_t> bytes() const {
    return {static_cast<const uint8_t*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

int64_t write(io::BlockFile& file, int64_t offset, const py::object& buffer) {
  const BufferView view(buffer);
  const py::gil_scoped_release release;
  return file.write(offset, view.bytes());
}

void fail(io::BlockFile& file, const std::string& kind, const py::str& message, int code) {
  ErrorKind as = ErrorKind::system;
  if (kind == "not_found") as = ErrorKind::not_found;
  if (kind == "corrupt_data") as = ErrorKind::corrupt_data;
  if (kind == "unavailable") as = ErrorKind::unavailable;
  file.fail(Error(as, to_text(message), file.name(), -1, code));
}

py::dict block_stats(const io::BlockFile& file) {
  const io::BlockFileStats stats = file.stats();
  py::dict d;
  d["held_bytes"] = stats.held_bytes;
  d["fetched_bytes"] = stats.fetched_bytes;
  d["read_bytes"] = stats.read_bytes;
  d["hit_blocks"] = stats.hit_blocks;
  d["miss_blocks"] = stats.miss_blocks;
  d["verified_blocks"] = stats.verified_blocks;
  d["repaired_blocks"] = stats.repaired_blocks;
  d["waited_seconds"] = static_cast<double>(stats.waited_ns) * 1e-9;
  d["position"] = stats.position;
  d["passed_block"] = stats.passed_block;
  d["readers"] = stats.readers;
  d["cache_errno"] = stats.cache_errno;
  d["complete"] = stats.complete;
  return d;
}

// Functions of destroyed sources, dropped later by a thread that has the GIL anyway. They cannot be dropped
// at once: the last reference to a source may end on a thread that holds one of our locks, and a thread with
// the GIL may wait for that lock.
class Leavings {
 public:
  void add(py::function function) {
    const std::lock_guard lock(mutex_);
    functions_.push_back(function.release().ptr());
  }
  // The caller holds the GIL.
  void clear() {
    std::vector<PyObject*> gone;
    {
      const std::lock_guard lock(mutex_);
      gone.swap(functions_);
    }
    for (PyObject* const function : gone) Py_DECREF(function);
  }

 private:
  std::mutex mutex_;
  std::vector<PyObject*> functions_;
};

Leavings& leavings() {
  static auto* const all = new Leavings;  // functions left at the end go with the interpreter
  return *all;
}

// Opens by a Python function, on the thread that reads.
class PythonOpen {
 public:
  explicit PythonOpen(py::function function) : function_(std::move(function)) { leavings().clear(); }
  ~PythonOpen() { leavings().add(std::move(function_)); }
  PythonOpen(const PythonOpen&) = delete;
  PythonOpen& operator=(const PythonOpen&) = delete;

  std::shared_ptr<const io::ByteSource> open(const std::string& name) const {
    const py::gil_scoped_acquire gil;
    try {
      return function_().cast<std::shared_ptr<io::ByteSource>>();
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt
      const std::string text = to_text(error.value());
      const int code = error.matches(PyExc_OSError)
                           ? py::cast<std::optional<int>>(error.value().attr("errno")).value_or(0)
                           : 0;
      const auto kind = error.matches(PyExc_FileNotFoundError) ? ErrorKind::not_found : ErrorKind::system;
      throw Error(kind, text.find(name) == std::string::npos ? name + ": " + text : text, name, -1, code);
    }
  }

 private:
  py::function function_;
};

void bind_source_pool(py::module_& m) {
  py::class_<io::SourcePool, std::shared_ptr<io::SourcePool>>(m, "SourcePool")
      .def(py::init([](size_t max_open) { return std::make_shared<io::SourcePool>(max_open); }),
           py::arg("max_open"))
      .def(
          "add",
          [](io::SourcePool& pool, const py::object& name, int64_t size, py::function open) {
            const std::string called = from_path(name);
            auto opener = std::make_shared<PythonOpen>(std::move(open));  // std::function wants to copy
            return std::const_pointer_cast<io::ByteSource>(
                pool.add(called, size, [opener, called] { return opener->open(called); }));
          },
          py::arg("name"), py::arg("size"), py::arg("open"))
      .def_property_readonly("open_now", &io::SourcePool::open_now);
}

std::shared_ptr<io::ByteSource> open_cached(const py::object& name, const py::object& stem,
                                            const std::string& header, int64_t map_offset, int64_t size,
                                            int64_t block_bytes, std::shared_ptr<io::CacheCounts> counts,
                                            py::function otherwise) {
  io::CachedFileOptions options;
  options.name = from_path(name);
  options.data_path = from_path(stem) + ".data";
  options.map_path = from_path(stem) + ".map";
  options.header = header;
  options.map_offset = map_offset;
  options.size = size;
  options.block_bytes = block_bytes;
  options.counts = std::move(counts);
  auto opener = std::make_shared<PythonOpen>(std::move(otherwise));
  options.otherwise = [opener, called = options.name] { return opener->open(called); };
  const py::gil_scoped_release release;
  return std::const_pointer_cast<io::ByteSource>(io::CachedFile::open(std::move(options)));
}

void bind_cached_file(py::module_& m) {
  py::class_<io::CacheCounts, std::shared_ptr<io::CacheCounts>>(m, "CacheCounts")
      .def(py::init([] { return std::make_shared<io::CacheCounts>(); }))
      .def_property_readonly("hit_blocks",
                             [](const io::CacheCounts& counts) { return counts.hit_blocks.load(); })
      .def_property_readonly("verified_blocks",
                             [](const io::CacheCounts& counts) { return counts.verified_blocks.load(); });
  m.def("open_cached_file", &open_cached, py::arg("name"), py::arg("stem"), py::arg("header"),
        py::arg("map_offset"), py::arg("size"), py::arg("block_bytes"), py::arg("counts"),
        py::arg("otherwise"));
}

void bind_block_file(py::module_& m) {
  const auto no_gil = py::call_guard<py::gil_scoped_release>();
  py::class_<io::BlockFile, std::shared_ptr<io::BlockFile>>(m, "BlockFile")
      .def(py::init(&new_block_file), py::arg("name"), py::arg("size"), py::kw_only(),
           py::arg("block_bytes") = 1 << 20, py::arg("cache_fd") = -1, py::arg("map_fd") = -1,
           py::arg("map_offset") = 0, py::arg("wake_fd") = -1, py::arg("sequential") = false,
           py::arg("max_held_bytes") = 0)
      .def_property_readonly("name", [](const io::BlockFile& f) { return to_path(f.name()); })
      .def_property_readonly("size", &io::BlockFile::size)
      .def_property_readonly("blocks", &io::BlockFile::blocks)
      .def("write", &write, py::arg("offset"), py::arg("buffer"))
      .def("take_wanted", &io::BlockFile::take_wanted, no_gil)
      .def("filled", &io::BlockFile::filled, py::arg("block"), no_gil)
      .def("next_missing", &io::BlockFile::next_missing, py::arg("block"), no_gil)
      .def("refresh", &io::BlockFile::refresh, no_gil)
      .def("fail", &fail, py::arg("kind"), py::arg("message"), py::arg("code") = 0)
      .def("close", &io::BlockFile::close, no_gil)
      .def("stats", &block_stats)
      .def("reader", [](io::BlockFile& f) { return std::const_pointer_cast<io::ByteSource>(f.reader()); });
}

}  // namespace

void bind_io(py::module_& m) {
  // Nothing changes the sources that Python holds, but pybind11's holders cannot be pointers to const.
  using SourcePtr = std::shared_ptr<io::ByteSource>;
  py::class_<io::ByteSource, SourcePtr>(m, "ByteSource")
      .def_property_readonly("name", [](const io::ByteSource& s) { return to_path(s.name()); })
      .def_property_readonly("size", &io::ByteSource::size)
      .def_property_readonly("is_here", &io::ByteSource::is_here)
      .def("read_at", &read_at, py::arg("offset"), py::arg("size"));
  m.def(
      "open_local_file",
      [](const py::object& path, const py::object& called, bool keep_open) {
        const std::string file = from_path(path), name = from_path(called);
        const py::gil_scoped_release release;  // a file server may take its time
        return std::const_pointer_cast<io::ByteSource>(io::open_local_file(file, name, keep_open));
      },
      py::arg("path"), py::arg("name") = "", py::arg("keep_open") = true);
  bind_block_file(m);
  bind_cached_file(m);
  bind_source_pool(m);
}

}  // namespace millrace::python
