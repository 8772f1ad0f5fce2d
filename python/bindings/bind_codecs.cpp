// Pictures in memory: one file's bytes as pixels, by the engine's codecs; what a header says; the lossless
// transcode of JPEGs.
#include <cstring>
#include <optional>

#include "bindings.h"
#include "codecs/image_header.h"
#include "codecs/jpeg_transcode.h"
#include "codecs/picture_decoder.h"
#include "millrace/error.h"
#include "transforms/pixel_buffer.h"

namespace millrace::python {
namespace {

struct Codecs {
  codecs::PictureDecoder decoder{codecs::JpegRule::strict};
  transforms::PixelBuffer pixels;
};

// Copies red, green and blue of `from`, without gaps. The last pixel of a row by bytes, as there may be
// nothing after it.
void pack(base::ImageView from, uint8_t* to) {
  for (int32_t y = 0; y < from.height; ++y) {
    const uint8_t* row = from.row(y);
    for (int32_t x = 0; x + 1 < from.width; ++x, row += base::kPixelBytes, to += 3)
      std::memcpy(to, row, base::kPixelBytes);
    std::memcpy(to, row, 3);
    to += 3;
  }
}

std::optional<py::array_t<uint8_t>> decode_image(const py::buffer& data, const std::string& mode) {
  if (mode != "RGB") throw py::value_error("decode_image: mode is '" + mode + "', but only 'RGB' is known");
  const py::buffer_info info = data.request();
  if (info.ndim != 1 || info.itemsize != 1 || info.strides[0] != 1)
    throw py::value_error("decode_image: data must be bytes, or another buffer of contiguous bytes");
  const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(info.ptr), static_cast<size_t>(info.size));
  thread_local Codecs codecs;
  base::ImageView view;
  {
    py::gil_scoped_release release;
    try {
      const codecs::PictureHeader header = codecs.decoder.probe(bytes);
      view = codecs.pixels.resize(header.width, header.height);
      codecs.decoder.decode({0, 0, header.width, header.height}, view);
    } catch (const Error& error) {
      if (!codecs::left_to_fallback(error, bytes)) throw;
      view = {};
    }
  }
  if (!view.data) return std::nullopt;
  py::array_t<uint8_t> result(
      {static_cast<py::ssize_t>(view.height), static_cast<py::ssize_t>(view.width), py::ssize_t{3}});
  uint8_t* const to = result.mutable_data();
  {
    py::gil_scoped_release release;
    pack(view, to);
  }
  return result;
}

std::span<const uint8_t> span_of(const py::bytes& data) {
  return {reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(data.ptr())),
          static_cast<size_t>(PyBytes_GET_SIZE(data.ptr()))};
}

py::bytes transcode(const py::bytes& data, int32_t segment_pixels, bool own_tables) {
  std::vector<uint8_t> made;
  {
    const std::span<const uint8_t> bytes = span_of(data);
    const py::gil_scoped_release release;
    made = codecs::transcode_jpeg(bytes, {segment_pixels, own_tables});
  }
  return {reinterpret_cast<const char*>(made.data()), made.size()};
}

py::dict probe(const py::bytes& data) {
  const codecs::JpegHeader header = codecs::probe_jpeg(span_of(data));
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
  m.def("decode_image", &decode_image, py::arg("data"), py::arg("mode") = "RGB");
  m.def("transcode_jpeg", &transcode, py::arg("data"), py::arg("segment_pixels"), py::arg("own_tables"));
  m.def("probe_jpeg", &probe, py::arg("data"));
  m.def(
      "image_format", [](const py::bytes& data) { return codecs::format_name(codecs::sniff(span_of(data))); },
      py::arg("data"));
}

}  // namespace millrace::python
