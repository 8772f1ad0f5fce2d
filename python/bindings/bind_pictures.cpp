// Recorded pictures: the part of Pillow's core image that can wait, under Pillow's names, so that Pillow's
// own methods work on it; and the pixels, when a program reads them.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "bindings.h"
#include "pictures/recorded_picture.h"
#include "tensors/tensor.h"
#include "transforms/kernels.h"
#include "transforms/value_table.h"

namespace millrace::python {
namespace {

using pictures::Mode;
using pictures::RecordedPicture;
using Layout = RecordedPicture::Layout;

// For operations that Pillow has and a recording lacks: the caller lets Pillow do them, on pixels.
struct NotRecorded : std::exception {
  const char* what() const noexcept override { return "cannot be recorded"; }
};

// Pillow's numbers.
enum class Transpose {
  flip_left_right,
  flip_top_bottom,
  rotate_90,
  rotate_180,
  rotate_270,
  transpose,
  transverse
};
enum class Resampling { nearest, lanczos, bilinear, bicubic, box, hamming };

Mode mode_of(const std::string& name) {
  if (name == "RGB") return Mode::rgb;
  if (name == "L") return Mode::grey;
  throw NotRecorded();
}

int32_t side(int64_t length) {
  if (length < 1 || length > RecordedPicture::kMaxSide) throw NotRecorded();
  return static_cast<int32_t>(length);
}

int32_t edge(int64_t at) {
  if (at < -RecordedPicture::kMaxSide || at > RecordedPicture::kMaxSide) throw NotRecorded();
  return static_cast<int32_t>(at);
}

RecordedPicture crop(const RecordedPicture& picture, const std::array<int64_t, 4>& box) {
  return picture.crop({edge(box[0]), edge(box[1]), side(box[2] - box[0]), side(box[3] - box[1])});
}

RecordedPicture permute(const RecordedPicture& picture, const std::array<uint8_t, 3>& from) {
  std::array<bool, 3> seen{};
  for (const uint8_t channel : from) {
    if (channel > 2 || seen[channel]) throw NotRecorded();
    seen[channel] = true;
  }
  return picture.permute(from);
}

RecordedPicture pad(const RecordedPicture& picture, const std::array<int64_t, 4>& padding,
                    const std::array<uint8_t, 3>& fill) {
  std::array<int32_t, 4> sides;
  for (size_t i = 0; i < sides.size(); ++i) {
    if (padding[i] < 0) throw NotRecorded();
    sides[i] = edge(padding[i]);
  }
  side(picture.size().width + padding[0] + padding[2]);
  side(picture.size().height + padding[1] + padding[3]);
  return picture.pad(sides, fill);
}

Interpolation interpolation_of(int resample) {
  switch (static_cast<Resampling>(resample)) {
    case Resampling::nearest: return Interpolation::nearest;
    case Resampling::lanczos: return Interpolation::lanczos;
    case Resampling::bilinear: return Interpolation::bilinear;
    case Resampling::bicubic: return Interpolation::bicubic;
    case Resampling::box: return Interpolation::box;
    case Resampling::hamming: return Interpolation::hamming;
  }
  throw NotRecorded();
}

// `box` inside the picture, as f32 as it is in Pillow.
RecordedPicture resize(const RecordedPicture& picture, const std::array<int64_t, 2>& size, int resample,
                       const std::array<float, 4>& box, bool may_begin_down) {
  const auto [width, height] = picture.size();
  transforms::ResizeStep how;
  how.width = side(size[0]);
  how.height = side(size[1]);
  how.interpolation = interpolation_of(resample);
  how.may_begin_down = may_begin_down;
  const bool inside = box[0] >= 0 && box[1] >= 0 && box[0] < box[2] && box[1] < box[3] &&
                      box[2] <= static_cast<float>(width) && box[3] <= static_cast<float>(height);
  if (!inside) throw NotRecorded();
  const bool whole = box[0] == 0 && box[1] == 0 && box[2] == static_cast<float>(width) &&
                     box[3] == static_cast<float>(height);
  if (!whole) {
    how.extent_x = {box[0], box[2]};
    how.extent_y = {box[1], box[3]};
  }
  return picture.resize(how);
}

RecordedPicture transpose(const RecordedPicture& picture, int method) {
  switch (static_cast<Transpose>(method)) {
    case Transpose::flip_left_right: return picture.turn(2);
    case Transpose::flip_top_bottom: return picture.turn(4);
    case Transpose::rotate_90: return picture.turn(8);
    case Transpose::rotate_180: return picture.turn(3);
    case Transpose::rotate_270: return picture.turn(6);
    case Transpose::transpose: return picture.turn(5);
    case Transpose::transverse: return picture.turn(7);
  }
  throw NotRecorded();
}

RecordedPicture recolor(const RecordedPicture& picture, const std::string& name, double factor) {
  const auto kind = std::find_if(transforms::kColorKinds.begin(), transforms::kColorKinds.end(),
                                 [&](AugmentKind one) { return name_of(one) == name; });
  if (kind == transforms::kColorKinds.end()) throw NotRecorded();
  const bool hue = *kind == AugmentKind::hue;
  if (!(hue ? factor >= -0.5 && factor <= 0.5 : factor >= 0 && factor <= 1e9)) throw NotRecorded();
  if (hue && picture.mode() == Mode::grey) throw NotRecorded();
  return picture.recolor(*kind, factor);
}

// `table`: 256 bytes for each channel; a grey picture has one channel.
RecordedPicture point(const RecordedPicture& picture, const py::bytes& table) {
  const bool grey = picture.mode() == Mode::grey;
  if (PyBytes_GET_SIZE(table.ptr()) != (grey ? 256 : 3 * 256)) throw NotRecorded();
  const auto* const bytes = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(table.ptr()));
  std::array<uint8_t, 3 * 256> all;
  for (size_t i = 0; i < all.size(); ++i) all[i] = bytes[grey ? i % 256 : i];
  return picture.point(all);
}

RecordedPicture map(const RecordedPicture& picture, const transforms::InverseAffine& inverse, int resample,
                    const std::array<uint8_t, 3>& fill) {
  const Interpolation interpolation = interpolation_of(resample);
  for (const double v : inverse)
    if (!(std::abs(v) < 1e9)) throw NotRecorded();
  if (interpolation != Interpolation::nearest && interpolation != Interpolation::bilinear &&
      interpolation != Interpolation::bicubic)
    throw NotRecorded();
  return picture.map(inverse, interpolation, fill);
}

std::vector<int64_t> histogram(const RecordedPicture& picture) {
  std::array<std::array<int64_t, 256>, 3> counts;
  {
    const py::gil_scoped_release release;
    counts = picture.histogram();
  }
  std::vector<int64_t> result;
  for (size_t c = 0; c < (picture.mode() == Mode::grey ? 1 : 3); ++c)
    result.insert(result.end(), counts[c].begin(), counts[c].end());
  return result;
}

Layout layout_of(const std::string& name) {
  if (name == "L") return Layout::grey;
  if (name == "RGB") return Layout::rgb;
  if (name == "BGR") return Layout::bgr;
  if (name == "RGBX") return Layout::rgbx;
  throw py::value_error("layout must be L, RGB, BGR or RGBX");
}

py::bytes tobytes(const RecordedPicture& picture, const std::string& layout) {
  const auto [width, height] = picture.size();
  const Layout how = layout_of(layout);
  const auto bytes = static_cast<py::ssize_t>(width) * height * RecordedPicture::bytes_of(how);
  auto result = py::reinterpret_steal<py::bytes>(PyBytes_FromStringAndSize(nullptr, bytes));
  if (!result) throw py::error_already_set();
  auto* const to = reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(result.ptr()));
  const py::gil_scoped_release release;
  picture.render(how, to);
  return result;
}

py::array_t<uint8_t> array(const RecordedPicture& picture, const std::string& layout) {
  const auto [width, height] = picture.size();
  const Layout how = layout_of(layout);
  std::vector<py::ssize_t> shape{height, width};
  if (how != Layout::grey) shape.push_back(RecordedPicture::bytes_of(how));
  py::array_t<uint8_t> result(shape);
  uint8_t* const to = result.mutable_data();
  const py::gil_scoped_release release;
  picture.render(how, to);
  return result;
}

// The values that ToTensor or PILToTensor, then Normalize make of pixels. A program uses few such chains, and
// each gets its tables once. `interleaved`: pictures in colour become rows of pixels instead of planes.
struct TensorValues {
  transforms::ValueTable table, grey;
  TensorValues(const Pipeline& pipeline, bool interleaved) {
    const transforms::Chain& chain = pipeline.native->chain();
    if (!chain.steps.empty() || !chain.erasing.empty())
      throw py::value_error("TensorValues: a chain of conversions alone, without changes of the picture");
    table = transforms::make_value_table(chain.to_tensor, chain.normalize);
    table.math_is_exact = transforms::math_gives_table(table);
    grey = table;
    grey.planes = 1;
    table.interleaved = interleaved && table.planes == 3;
  }
};

py::object tensor(const RecordedPicture& picture, const TensorValues& values) {
  const auto [width, height] = picture.size();
  const transforms::ValueTable& table = picture.mode() == Mode::grey ? values.grey : values.table;
  void* to = nullptr;
  const transforms::OutputShape shape = table.interleaved
                                            ? transforms::OutputShape{height, width, table.planes}
                                            : transforms::OutputShape{table.planes, height, width};
  py::object result = new_row_tensor(shape, table.type, &to);
  const py::gil_scoped_release release;
  picture.render(table, to);
  return result;
}

std::optional<RecordedPicture> open(const py::bytes& data, bool grey) {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(data.ptr())),
                                       static_cast<size_t>(PyBytes_GET_SIZE(data.ptr())));
  std::shared_ptr<const void> keeper(new py::bytes(data), [](const void* kept) {
    if (!Py_IsInitialized()) return;
    const py::gil_scoped_acquire gil;
    delete static_cast<const py::bytes*>(kept);
  });
  const py::gil_scoped_release release;
  return RecordedPicture::open(std::move(keeper), bytes, grey);
}

RecordedPicture of_pixels(const std::array<int64_t, 2>& size, const std::string& mode,
                          const py::bytes& pixels) {
  const transforms::PictureSize of{side(size[0]), side(size[1])};
  const int bytes = mode_of(mode) == Mode::grey ? 1 : base::kPixelBytes;
  if (PyBytes_GET_SIZE(pixels.ptr()) != static_cast<py::ssize_t>(of.width) * of.height * bytes)
    throw py::value_error("pixels must have four bytes for each pixel of RGB, one for each of L");
  return RecordedPicture::of_pixels(of, mode_of(mode),
                                    reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(pixels.ptr())));
}

void give_pixels(const RecordedPicture& picture, const py::bytes& rgbx) {
  const auto [width, height] = picture.stored_size();
  if (PyBytes_GET_SIZE(rgbx.ptr()) != static_cast<py::ssize_t>(width) * height * base::kPixelBytes)
    throw py::value_error("rgbx must have four bytes for each pixel of the stored picture");
  picture.give_pixels(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(rgbx.ptr())));
}

py::bytes compressed(const RecordedPicture& picture) {
  const auto bytes = picture.compressed();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void bind_pictures(py::module_& m) {
  py::register_exception<NotRecorded>(m, "NotRecorded");
  m.def("last_decode", [] { return static_cast<int>(RecordedPicture::last_decode()); });
  py::class_<TensorValues>(m, "TensorValues")
      .def(py::init<const Pipeline&, bool>(), py::arg("conversions"), py::arg("interleaved") = false);
  py::class_<RecordedPicture>(m, "RecordedPicture", py::is_final())
      .def_static("open", &open, py::arg("data"), py::arg("grey") = false)
      .def_static("of_pixels", &of_pixels, py::arg("size"), py::arg("mode"), py::arg("pixels"))
      .def_property_readonly(
          "size", [](const RecordedPicture& p) { return std::pair(p.size().width, p.size().height); })
      .def_property_readonly(
          "stored_size",
          [](const RecordedPicture& p) { return std::pair(p.stored_size().width, p.stored_size().height); })
      .def_property_readonly("mode",
                             [](const RecordedPicture& p) { return p.mode() == Mode::grey ? "L" : "RGB"; })
      .def_property_readonly("waits", &RecordedPicture::waiting_bytes)
      .def_property_readonly("renders", &RecordedPicture::renders)
      .def_property_readonly("compressed", &compressed)
      .def("crop", &crop, py::arg("box"))
      .def("pad", &pad, py::arg("padding"), py::arg("fill"))
      .def("resize", &resize, py::arg("size"), py::arg("resample"), py::arg("box"),
           py::arg("may_begin_down") = true)
      .def("transpose", &transpose, py::arg("method"))
      .def(
          "convert", [](const RecordedPicture& p, const std::string& mode) { return p.in(mode_of(mode)); },
          py::arg("mode"))
      .def("recolor", &recolor, py::arg("operation"), py::arg("factor"))
      .def("permute", &permute, py::arg("source"))
      .def("point", &point, py::arg("table"))
      .def("map", &map, py::arg("inverse"), py::arg("resample"), py::arg("fill"))
      .def("histogram", &histogram)
      .def("made", &RecordedPicture::made, py::call_guard<py::gil_scoped_release>())
      .def("tobytes", &tobytes, py::arg("layout"))
      .def("array", &array, py::arg("layout"))
      .def("tensor", &tensor, py::arg("values"))
      .def("give_pixels", &give_pixels, py::arg("rgbx"));
}

}  // namespace millrace::python
