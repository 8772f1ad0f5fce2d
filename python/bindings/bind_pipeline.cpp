// ImagePipeline, and its decisions as dicts.
#include <cstring>

#include "bindings.h"
#include "chain_dicts.h"
#include "millrace/error.h"
#include "tensors/tensor.h"

namespace millrace::python {
namespace {

py::dict named(const char* op) {
  py::dict d;
  d["op"] = op;
  return d;
}

py::dict box_dict(const char* op, const base::Rect& box) {
  py::dict d = named(op);
  d["top"] = box.top;
  d["left"] = box.left;
  d["height"] = box.height;
  d["width"] = box.width;
  return d;
}

py::list box_list(const std::vector<base::Rect>& boxes) {
  py::list list;
  for (const base::Rect& box : boxes) list.append(py::make_tuple(box.top, box.left, box.height, box.width));
  return list;
}

py::dict flip_dict(const char* op, bool applied) {
  py::dict d = named(op);
  d["flip"] = applied;
  return d;
}

py::dict color_dict(const transforms::ColorJitterParams& color) {
  py::dict d;
  py::list order;
  for (const transforms::ColorOp op : color.order) {
    if (op == transforms::ColorOp::none) continue;
    const transforms::AugmentStep step = color.step(op);
    order.append(name_of(step.kind));
    d[name_of(step.kind)] = step.value;
  }
  d["order"] = order;
  return d;
}

py::dict affine_dict(const transforms::AffineParams& affine, const transforms::InverseAffine& inverse) {
  py::dict d = named(affine.rotation ? "random_rotation" : "random_affine");
  d["angle"] = affine.angle;
  if (!affine.rotation) {
    d["translate"] = py::make_tuple(affine.translate_x, affine.translate_y);
    d["scale"] = affine.scale;
    d["shear"] = py::make_tuple(affine.shear_x, affine.shear_y);
  }
  d["inverse"] = py::make_tuple(inverse[0], inverse[1], inverse[2], inverse[3], inverse[4], inverse[5]);
  return d;
}

constexpr const char* kInterpolationNames[] = {"nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"};

py::dict perspective_dict(const transforms::OpParams& op) {
  py::dict d = named("random_perspective");
  d["applied"] = op.applied;
  if (!op.applied) return d;
  d["corners"] = py::cast(op.perspective.corners);
  d["coefficients"] = py::cast(op.perspective.inverse);
  return d;
}

py::list ops_list(const std::vector<transforms::AugmentStep>& steps) {
  py::list ops;
  for (const transforms::AugmentStep& step : steps) {
    py::dict made;
    made["kind"] = name_of(step.kind);
    made["value"] = step.value;
    if (step.inverse != transforms::InverseAffine{1, 0, 0, 0, 1, 0}) {
      made["inverse"] = py::cast(step.inverse);
      made["interpolation"] = py::cast(kInterpolationNames[static_cast<size_t>(step.interpolation)]);
    }
    ops.append(made);
  }
  return ops;
}

py::dict policy_dict(const std::vector<transforms::AugmentStep>& steps) {
  py::dict d = named("augment_policy");
  d["ops"] = ops_list(steps);
  return d;
}

py::dict mix_dict(const transforms::MixParams& mix) {
  py::dict d = named("augmix");
  d["share"] = mix.share;
  py::list copies;
  for (const transforms::MixParams::Copy& copy : mix.copies) {
    py::dict made;
    made["share"] = copy.share;
    made["ops"] = ops_list(copy.steps);
    copies.append(made);
  }
  d["copies"] = copies;
  return d;
}

py::dict decision(const transforms::OpParams& op) {
  py::dict d;
  switch (op.kind) {
    case transforms::OpParams::Kind::resized_crop:
      d = box_dict("random_resized_crop", op.box);
      d["interpolation"] = kInterpolationNames[static_cast<size_t>(op.interpolation)];
      break;
    case transforms::OpParams::Kind::crop: return box_dict("random_crop", op.box);
    case transforms::OpParams::Kind::frame:
      d = box_dict("frame", op.box);
      d["applied"] = op.applied;
      break;
    case transforms::OpParams::Kind::resize:
      d = named("drawn_resize");
      d["height"] = op.box.height;
      d["width"] = op.box.width;
      d["interpolation"] = kInterpolationNames[static_cast<size_t>(op.interpolation)];
      break;
    case transforms::OpParams::Kind::perspective: return perspective_dict(op);
    case transforms::OpParams::Kind::flip_horizontal: return flip_dict("horizontal_flip", op.applied);
    case transforms::OpParams::Kind::flip_vertical: return flip_dict("vertical_flip", op.applied);
    case transforms::OpParams::Kind::orientation:
      d = named("exif_transpose");
      d["orientation"] = op.orientation;
      break;
    case transforms::OpParams::Kind::color_jitter:
      d = color_dict(op.color);
      d["op"] = "color_jitter";
      d["applied"] = op.applied;
      break;
    case transforms::OpParams::Kind::distort:
      d = color_dict(op.color);
      d["op"] = "photometric_distort";
      d["permutation"] =
          op.applied ? py::make_tuple(op.permutation & 3, op.permutation >> 2 & 3, op.permutation >> 4 & 3)
                     : py::object(py::none());
      break;
    case transforms::OpParams::Kind::choice:
      d = named("random_choice");
      d["chosen"] = op.chosen;
      break;
    case transforms::OpParams::Kind::noise:
      d = named("gaussian_noise");
      d["key"] = op.noise;
      break;
    case transforms::OpParams::Kind::affine: return affine_dict(op.affine, op.inverse);
    case transforms::OpParams::Kind::grayscale:
      d = named("random_grayscale");
      d["applied"] = op.applied;
      break;
    case transforms::OpParams::Kind::blur:
      d = named("gaussian_blur");
      d["applied"] = op.applied;
      if (op.applied) d["sigma"] = op.sigma;
      break;
    case transforms::OpParams::Kind::policy: return policy_dict(op.steps);
    case transforms::OpParams::Kind::mix: return mix_dict(op.mix);
    case transforms::OpParams::Kind::erase:
      d = box_dict("random_erasing", op.box);
      d["applied"] = op.applied;
      if (!op.more_boxes.empty()) d["more"] = box_list(op.more_boxes);
      break;
  }
  return d;
}

// Runs the chain on pixels the caller has: H x W x 3 or 4 bytes, of which the plan's region is copied once.
py::object apply(const Pipeline& pipeline,
                 const py::array_t<uint8_t, py::array::c_style | py::array::forcecast>& pixels,
                 const py::int_& seed, uint64_t epoch, int64_t index, uint32_t occurrence) {
  if (pixels.ndim() != 3 || (pixels.shape(2) != 3 && pixels.shape(2) != 4) || pixels.shape(0) == 0 ||
      pixels.shape(1) == 0)
    throw py::value_error(
        "pixels must be a non-empty array of shape (height, width, 3 or 4) and dtype uint8");
  const auto height = static_cast<int32_t>(pixels.shape(0)), width = static_cast<int32_t>(pixels.shape(1));
  const auto channels = pixels.shape(2);
  const transforms::ImagePipeline& native = *pipeline.native;
  const transforms::SampleParams params =
      native.draw(width, height, 1, make_key(seed, epoch, index, occurrence));
  const auto scratch = transforms::ImagePipeline::make_scratch();
  const transforms::ImagePipeline::Need need = native.plan(width, height, params, *scratch);
  transforms::PixelBuffer buffer;
  const base::ImageView region = buffer.resize(need.region.width, need.region.height);
  void* out = nullptr;
  py::object tensor = new_row_tensor(need.shape, native.output_type(), &out);
  const uint8_t* source = pixels.data();
  py::gil_scoped_release release;
  for (int32_t y = 0; y < region.height; ++y) {
    const uint8_t* from = source + (int64_t{need.region.top + y} * width + need.region.left) * channels;
    uint8_t* to = region.row(y);
    for (int32_t x = 0; x < region.width; ++x, from += channels, to += base::kPixelBytes)
      std::memcpy(to, from, 3);
  }
  native.apply(region, *scratch, out);
  return tensor;
}

}  // namespace

Pipeline::Pipeline(py::list list) : chain(std::move(list)) {
  std::vector<TransformSpec> specs;
  for (const py::handle op : chain) specs.push_back(make_spec(op.cast<py::dict>()));
  native = transforms::ImagePipeline::create(std::move(specs));
}

py::list to_dicts(const transforms::SampleParams& params) {
  py::list result;
  for (const transforms::OpParams& op : params.ops) result.append(decision(op));
  return result;
}

py::object new_row_tensor(const transforms::OutputShape& shape, base::DType type, void** data) {
  return py::reinterpret_steal<py::object>(
      tensors::new_tensor({shape.channels, shape.height, shape.width}, type, data));
}

base::SampleKey make_key(const py::int_& seed, uint64_t epoch, int64_t index, uint32_t occurrence) {
  const uint64_t bits = PyLong_AsUnsignedLongLongMask(seed.ptr());
  if (PyErr_Occurred()) throw py::error_already_set();
  return {bits, epoch, index, occurrence};
}

void bind_pipeline(py::module_& m) {
  py::class_<Pipeline>(m, "ImagePipeline")
      .def(py::init<py::list>(), py::arg("chain"))
      .def_property_readonly("output_dtype",
                             [](const Pipeline& p) { return base::dtype_name(p.native->output_type()); })
      .def_property_readonly("fixed_shape",
                             [](const Pipeline& p) -> py::object {
                               const auto shape = p.native->fixed_shape();
                               if (!shape) return py::none();
                               return py::make_tuple(shape->channels, shape->height, shape->width);
                             })
      .def(
          "draw",
          [](const Pipeline& p, int32_t width, int32_t height, const py::int_& seed, uint64_t epoch,
             int64_t index, uint32_t occurrence) {
            return to_dicts(p.native->draw(width, height, 1, make_key(seed, epoch, index, occurrence)));
          },
          py::arg("width"), py::arg("height"), py::arg("seed"), py::arg("epoch"), py::arg("index"),
          py::arg("occurrence") = 0)
      .def("apply", &apply, py::arg("pixels"), py::arg("seed"), py::arg("epoch"), py::arg("index"),
           py::arg("occurrence") = 0)
      .def(py::pickle([](const Pipeline& p) { return py::make_tuple(p.chain); },
                      [](const py::tuple& state) { return Pipeline(state[0].cast<py::list>()); }));
}

}  // namespace millrace::python
