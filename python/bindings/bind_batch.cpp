// Operations on batches of pictures that lie in tensors of the CPU or a CUDA device: addresses and arrays of
// parameters in, nothing out.
//
// Tensors come as (address, dtype, n, c, h, w, channels_last) and places as (device, stream), so that nothing
// here needs libtorch. python/millrace/transforms/batch checks the tensors, allocates the results and holds
// both until the call is over.
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "device/batch_ops.h"
#include "device/chain_augmentation.h"
#include "device/fused_augment.h"
#include "millrace/error.h"

namespace millrace::python {
namespace {

using ImagesTuple = std::tuple<uintptr_t, std::string, int64_t, int32_t, int32_t, int32_t, bool>;
using PlaceTuple = std::tuple<int, uintptr_t>;
template <class T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

device::BatchImages images_of(const ImagesTuple& t) {
  const auto& [address, dtype, n, c, h, w, channels_last] = t;
  const auto type = base::dtype_named(dtype);
  if (!type)
    throw Error(ErrorKind::invalid_argument,
                "images of " + dtype + " are not supported; convert them to uint8 or a float type");
  return {reinterpret_cast<void*>(address), *type, n, c, h, w, channels_last};
}

device::Place place_of(const PlaceTuple& t) {
  return {std::get<0>(t), reinterpret_cast<void*>(std::get<1>(t))};
}

template <class T>
std::span<const T> values_of(const Array<T>& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

// The rows of a two-dimensional array of `columns` columns, each made a struct by `make(pointer)`.
template <class T, class Make>
auto rows_of(const Array<T>& array, py::ssize_t columns, const char* what, Make&& make) {
  if (array.ndim() != 2 || array.shape(1) != columns)
    throw Error(ErrorKind::invalid_argument, std::string(what) + " must be an array of " +
                                                 std::to_string(columns) + " columns, a row per image");
  std::vector<decltype(make(array.data()))> rows;
  rows.reserve(static_cast<size_t>(array.shape(0)));
  for (py::ssize_t i = 0; i < array.shape(0); ++i) rows.push_back(make(array.data() + i * columns));
  return rows;
}

base::Rect rect_of(const int32_t* row) { return {row[0], row[1], row[2], row[3]}; }

std::vector<transforms::ColorJitterParams> jitters_of(const Array<uint8_t>& order,
                                                      const Array<double>& factors) {
  auto jitters = rows_of(factors, 4, "factors", [](const double* f) {
    transforms::ColorJitterParams p;
    p.brightness = f[0], p.contrast = f[1], p.saturation = f[2], p.hue = f[3];
    return p;
  });
  const auto orders = rows_of(order, 4, "order", [](const uint8_t* o) { return o; });
  if (orders.size() != jitters.size())
    throw Error(ErrorKind::invalid_argument, "order and factors must have as many rows");
  for (size_t i = 0; i < orders.size(); ++i)
    for (size_t k = 0; k < 4; ++k) {
      if (orders[i][k] > static_cast<uint8_t>(transforms::ColorOp::none))
        throw Error(ErrorKind::invalid_argument,
                    "order has " + std::to_string(orders[i][k]) + "; operations are 0 to 3, and 4 is none");
      jitters[i].order[k] = static_cast<transforms::ColorOp>(orders[i][k]);
    }
  return jitters;
}

void bind_ops(py::module_& m) {
  m.def(
      "batch_normalize",
      [](const ImagesTuple& in, const ImagesTuple& out, const std::vector<double>& mean,
         const std::vector<double>& std, const PlaceTuple& place) {
        const py::gil_scoped_release release;
        device::normalize(images_of(in), images_of(out), mean, std, place_of(place));
      },
      py::arg("images"), py::arg("out"), py::arg("mean"), py::arg("std"), py::arg("place"));
  m.def(
      "batch_flip",
      [](const ImagesTuple& in, const ImagesTuple& out, const Array<uint8_t>& flipped,
         const PlaceTuple& place) {
        const auto flags = values_of(flipped);
        const py::gil_scoped_release release;
        device::flip_horizontal(images_of(in), images_of(out), flags, place_of(place));
      },
      py::arg("images"), py::arg("out"), py::arg("flipped"), py::arg("place"));
  m.def(
      "batch_affine",
      [](const ImagesTuple& in, const ImagesTuple& out, const Array<double>& inverse, bool bilinear,
         const std::vector<double>& fill, const PlaceTuple& place) {
        const auto maps = rows_of(inverse, 6, "inverse", [](const double* r) {
          return transforms::InverseAffine{r[0], r[1], r[2], r[3], r[4], r[5]};
        });
        const py::gil_scoped_release release;
        device::affine(images_of(in), images_of(out), maps, bilinear, fill, place_of(place));
      },
      py::arg("images"), py::arg("out"), py::arg("inverse"), py::arg("bilinear"), py::arg("fill"),
      py::arg("place"));
  m.def(
      "batch_color",
      [](const ImagesTuple& in, const ImagesTuple& out, const Array<uint8_t>& order,
         const Array<double>& factors, const Array<uint8_t>& to_grey, uintptr_t grey_sums,
         const PlaceTuple& place) {
        const auto jitters = jitters_of(order, factors);
        const auto grey = values_of(to_grey);
        const py::gil_scoped_release release;
        device::color_jitter(images_of(in), images_of(out), jitters, grey,
                             reinterpret_cast<int64_t*>(grey_sums), place_of(place));
      },
      py::arg("images"), py::arg("out"), py::arg("order"), py::arg("factors"), py::arg("to_grey"),
      py::arg("grey_sums"), py::arg("place"));
  m.def(
      "batch_erase",
      [](const ImagesTuple& in, const ImagesTuple& out, const Array<int32_t>& boxes,
         const std::vector<double>& value, uint64_t seed, const PlaceTuple& place) {
        const auto rects = rows_of(boxes, 4, "boxes", rect_of);
        const py::gil_scoped_release release;
        erase(images_of(in), images_of(out), rects, value, seed, place_of(place));
      },
      py::arg("images"), py::arg("out"), py::arg("boxes"), py::arg("value"), py::arg("seed"),
      py::arg("place"));
  m.def(
      "batch_mix",
      [](const ImagesTuple& in, const ImagesTuple& out, const Array<int64_t>& partners,
         const Array<double>& shares, const Array<int32_t>& boxes, const PlaceTuple& place) {
        const auto rects = rows_of(boxes, 4, "boxes", rect_of);
        if (partners.size() != shares.size() || static_cast<size_t>(shares.size()) != rects.size())
          throw Error(ErrorKind::invalid_argument, "partners, shares and boxes must have as many entries");
        std::vector<device::MixParams> mixes(rects.size());
        for (size_t i = 0; i < mixes.size(); ++i) mixes[i] = {partners.data()[i], shares.data()[i], rects[i]};
        const py::gil_scoped_release release;
        device::mix(images_of(in), images_of(out), mixes, place_of(place));
      },
      py::arg("images"), py::arg("out"), py::arg("partners"), py::arg("shares"), py::arg("boxes"),
      py::arg("place"));
}

// Rows of `geometry`: crop (left, top, width, height), resized (width, height), (left, top) of the output; of
// `flags`: flip horizontally, flip vertically, to grey.
std::vector<device::Augmentation> augmentations_of(const Array<int32_t>& geometry,
                                                   const Array<uint8_t>& flags, bool bicubic,
                                                   const Array<uint8_t>& order,
                                                   const Array<double>& factors) {
  auto all = rows_of(geometry, 8, "geometry", [&](const int32_t* g) {
    device::Augmentation a;
    a.crop = rect_of(g);
    a.width = g[4], a.height = g[5], a.left = g[6], a.top = g[7];
    a.interpolation = bicubic ? Interpolation::bicubic : Interpolation::bilinear;
    return a;
  });
  const auto jitters = jitters_of(order, factors);
  const auto decisions = rows_of(flags, 3, "flags", [](const uint8_t* f) { return f; });
  if (jitters.size() != all.size() || decisions.size() != all.size())
    throw Error(ErrorKind::invalid_argument, "geometry, flags, order and factors must have as many rows");
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].jitter = jitters[i];
    all[i].flip_horizontal = decisions[i][0], all[i].flip_vertical = decisions[i][1],
    all[i].grayscale = decisions[i][2];
  }
  return all;
}

// The arguments of fused_augment() besides the tensors; callers ask for the workspace's size before the call.
struct FusedPlan {
  std::vector<device::Augmentation> augmentations;
  FusedPlan(const Array<int32_t>& geometry, const Array<uint8_t>& flags, bool bicubic,
            const Array<uint8_t>& order, const Array<double>& factors)
      : augmentations(augmentations_of(geometry, flags, bicubic, order, factors)) {}
  explicit FusedPlan(std::vector<device::Augmentation> all) : augmentations(std::move(all)) {}
};

// Picture i, of sizes[i] (width, height), gets the decisions of the key (seed, 0, i, 0).
FusedPlan plan_of_pipeline(const Pipeline& pipeline, const std::vector<std::pair<int32_t, int32_t>>& sizes,
                           const py::int_& seed) {
  std::vector<device::Augmentation> all;
  for (const auto& [width, height] : sizes) {
    const auto drawn = pipeline.native->draw(width, height, 1, make_key(seed, 0, std::ssize(all), 0));
    auto made = device::augmentation_of(pipeline.native->chain(), {width, height}, drawn);
    if (!made)
      throw Error(ErrorKind::unavailable,
                  "picture " + std::to_string(all.size()) + " is the CPU's with this chain");
    all.push_back(std::move(*made));
  }
  return FusedPlan(std::move(all));
}

void bind_fused(py::module_& m) {
  using PictureTuple = std::tuple<uintptr_t, int32_t, int32_t, int32_t,
                                  int32_t>;  // address, width, height, pitch, bytes per pixel
  py::class_<FusedPlan>(m, "FusedPlan")
      .def(py::init<const Array<int32_t>&, const Array<uint8_t>&, bool, const Array<uint8_t>&,
                    const Array<double>&>(),
           py::arg("geometry"), py::arg("flags"), py::arg("bicubic"), py::arg("order"), py::arg("factors"))
      .def_static("of_pipeline", &plan_of_pipeline, py::arg("pipeline"), py::arg("sizes"), py::arg("seed"))
      .def(
          "workspace_bytes",
          [](const FusedPlan& plan, int32_t height, int32_t width) {
            return device::fused_workspace_bytes(plan.augmentations, height, width);
          },
          py::arg("height"), py::arg("width"))
      .def(
          "run",
          [](const FusedPlan& plan, const std::vector<PictureTuple>& pictures,
             const std::vector<double>& mean, const std::vector<double>& std, const ImagesTuple& out,
             uintptr_t workspace, const PlaceTuple& place) {
            std::vector<device::DecodedPicture> decoded;
            for (const auto& [address, width, height, pitch, bytes] : pictures)
              decoded.push_back({reinterpret_cast<const uint8_t*>(address), width, height, pitch, bytes});
            const py::gil_scoped_release release;
            device::fused_augment(decoded, plan.augmentations, mean, std, images_of(out),
                                  reinterpret_cast<void*>(workspace), place_of(place));
          },
          py::arg("pictures"), py::arg("mean"), py::arg("std"), py::arg("out"), py::arg("workspace"),
          py::arg("place"));
}

}  // namespace

void bind_batch(py::module_& m) {
  m.def("cuda_missing_reason", &cuda::missing_reason);
  bind_ops(m);
  bind_fused(m);
}

}  // namespace millrace::python
