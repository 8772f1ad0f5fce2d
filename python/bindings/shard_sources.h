// What the bindings of shards share: a shard as Python names it, and a file in one that was not read yet.
#pragma once

#include <cstdint>
#include <memory>

#include "bindings.h"
#include "io/byte_source.h"

namespace millrace::python {

inline std::shared_ptr<const io::ByteSource> source_of(const py::object& source) {
  if (py::isinstance<io::ByteSource>(source)) return source.cast<std::shared_ptr<io::ByteSource>>();
  const std::string path = from_path(source);
  const py::gil_scoped_release release;
  return io::open_local_file(path);
}

// Native code lowers ASCII only.
inline py::str to_suffix(const std::string& suffix) { return to_path(suffix).attr("lower")(); }

// Straight into a new bytes object, without the GIL.
inline py::bytes read_bytes(const io::ByteSource& source, int64_t offset, int64_t size) {
  auto bytes = py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, size));
  if (!bytes) throw py::error_already_set();
  const std::span<uint8_t> into(reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(bytes.ptr())),
                                static_cast<size_t>(size));
  const py::gil_scoped_release release;
  source.read_at(offset, into);
  return bytes;
}

struct LocatedFile {
  std::shared_ptr<const io::ByteSource> source;
  int64_t offset = 0, size = 0;

  py::bytes read() const { return read_bytes(*source, offset, size); }
};

}  // namespace millrace::python
