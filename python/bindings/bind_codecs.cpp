// JPEG files as Python's tools see them: what a header says, and the lossless transcode.
#include "bindings.h"
#include "codecs/image_header.h"
#include "codecs/jpeg_transcode.h"

namespace millrace::python {
namespace {

std::span<const uint8_t> span_of(const py::bytes& data) {
  return {reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(data.ptr())), static_cast<size_t>(PyBytes_GET_SIZE(data.ptr()))};
}

py::bytes transcode(const py::bytes& data, int32_t segment_pixels, bool own_tables) {
  std::vector<uint8_t> made;
  {
    const std::span<const uint8_t> bytes = span_of(data);
    const py::gil_scoped_release release;
    made = transcode_jpeg(bytes, {segment_pixels, own_tables});
  }
  return {reinterpret_cast<const char*>(made.data()), made.size()};
}

py::dict probe(const py::bytes& data) {
  const JpegHeader header = probe_jpeg(span_of(data));
  py::dict result;
  result["width"] = header.width;
  result["height"] = header.height;
  result["components"] = header.components;
  result["precision"] = header.precision;
  result["progressive"] = header.progressive;
  result["arithmetic"] = header.arithmetic;
  result["orientation"] = header.orientation;
  return result;
}

}  // namespace

void bind_codecs(py::module_& m) {
  m.def("transcode_jpeg", &transcode, py::arg("data"), py::arg("segment_pixels"), py::arg("own_tables"));
  m.def("probe_jpeg", &probe, py::arg("data"));
  m.def("image_format", [](const py::bytes& data) { return format_name(sniff(span_of(data))); }, py::arg("data"));
}

}  // namespace millrace::python
