// Chains of dicts, as lowering makes them, to TransformSpecs.
#include "chain_dicts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace millrace::python {
namespace {

template <class T>
T field(const py::dict& op, const char* name) {
  if (!op.contains(name))
    throw py::value_error("transform " + py::repr(op).cast<std::string>() + " lacks the field '" + name +
                          "'");
  return op[name].cast<T>();
}

py::value_error unknown(const char* name, const std::string& value) {
  return py::value_error(std::string(name) + "='" + value + "' is not known to the native pipeline");
}

template <class Enum, size_t N>
Enum named_choice(const std::string& value, const char* name,
                  const std::pair<const char*, Enum> (&names)[N]) {
  for (const auto& [text, result] : names)
    if (value == text) return result;
  throw unknown(name, value);
}

template <class Enum, size_t N>
Enum choice(const py::dict& op, const char* name, const std::pair<const char*, Enum> (&names)[N]) {
  return named_choice(field<std::string>(op, name), name, names);
}

constexpr std::pair<const char*, Interpolation> kInterpolations[] = {
    {"nearest", Interpolation::nearest}, {"bilinear", Interpolation::bilinear},
    {"bicubic", Interpolation::bicubic}, {"lanczos", Interpolation::lanczos},
    {"box", Interpolation::box},         {"hamming", Interpolation::hamming}};
Interpolation interpolation(const py::dict& op) {
  return choice<Interpolation>(op, "interpolation", kInterpolations);
}

// One is drawn for each picture; none given: none is.
std::vector<Interpolation> interpolations(const py::dict& op) {
  std::vector<Interpolation> result;
  if (op.contains("interpolations"))
    for (const py::handle name : field<py::list>(op, "interpolations"))
      result.push_back(named_choice(name.cast<std::string>(), "interpolations", kInterpolations));
  return result;
}

bool flag(const py::dict& op, const char* name) { return op.contains(name) && field<bool>(op, name); }

Range range(const py::dict& op, const char* name) {
  const auto [min, max] = field<std::pair<double, double>>(op, name);
  return {min, max};
}

template <class T>
std::optional<T> optional_field(const py::dict& op, const char* name) {
  const auto value = field<py::object>(op, name);
  return value.is_none() ? std::nullopt : std::optional<T>(value.cast<T>());
}

std::optional<Range> optional_range(const py::dict& op, const char* name) {
  return field<py::object>(op, name).is_none() ? std::nullopt : std::optional<Range>(range(op, name));
}

constexpr std::pair<const char*, PaddingMode> kPaddingModes[] = {{"constant", PaddingMode::constant},
                                                                 {"edge", PaddingMode::edge},
                                                                 {"reflect", PaddingMode::reflect},
                                                                 {"symmetric", PaddingMode::symmetric}};

template <class T>
void take(const py::dict& op, const char* name, T& into) {
  if (op.contains(name)) into = op[name].cast<T>();
}

void take(const py::dict& op, const char* name, Range& into) {
  if (op.contains(name)) into = range(op, name);
}

Frame frame(const py::dict& op) {
  Frame frame;
  frame.kind = choice<Frame::Kind>(op, "kind",
                                   {{"pad", Frame::Kind::pad},
                                    {"center", Frame::Kind::center},
                                    {"anywhere", Frame::Kind::anywhere},
                                    {"zoom_out", Frame::Kind::zoom_out}});
  take(op, "height", frame.height);
  take(op, "width", frame.width);
  take(op, "padding", frame.padding);
  Range side{frame.side_min, frame.side_max};
  take(op, "side_range", side);
  frame.side_min = side.min;
  frame.side_max = side.max;
  take(op, "p", frame.p);
  take(op, "fill", frame.fill);
  if (op.contains("padding_mode"))
    frame.padding_mode = choice<PaddingMode>(op, "padding_mode", kPaddingModes);
  return frame;
}

DrawnResize drawn_resize(const py::dict& op) {
  DrawnResize resize;
  resize.kind = choice<DrawnResize::Kind>(op, "kind",
                                          {{"keep_ratio", DrawnResize::Kind::keep_ratio},
                                           {"shortest", DrawnResize::Kind::shortest},
                                           {"jitter", DrawnResize::Kind::jitter},
                                           {"between", DrawnResize::Kind::between}});
  take(op, "height", resize.height);
  take(op, "width", resize.width);
  take(op, "longest", resize.longest);
  take(op, "scale", resize.scale);
  take(op, "scale_p", resize.scale_p);
  take(op, "scale_is_area", resize.scale_is_area);
  take(op, "aspect", resize.aspect);
  take(op, "aspect_p", resize.aspect_p);
  take(op, "sizes", resize.sizes);
  take(op, "max_size", resize.max_size);
  resize.interpolations = interpolations(op);
  resize.of_tensor = flag(op, "of_tensor");
  return resize;
}

RandomAffine random_affine(const py::dict& op) {
  const auto shear = field<std::array<double, 4>>(op, "shear");
  return {range(op, "degrees"),
          optional_field<std::array<double, 2>>(op, "translate"),
          optional_range(op, "scale"),
          {shear[0], shear[1]},
          {shear[2], shear[3]},
          interpolation(op),
          optional_field<std::array<double, 2>>(op, "center"),
          field<std::array<uint8_t, 3>>(op, "fill")};
}

RandomErasing random_erasing(const py::dict& op) {
  RandomErasing erasing{field<double>(op, "p"), range(op, "scale"), range(op, "ratio"),
                        field<std::vector<double>>(op, "value"), flag(op, "per_channel")};
  if (op.contains("count"))
    std::tie(erasing.count_min, erasing.count_max) = field<std::pair<int32_t, int32_t>>(op, "count");
  return erasing;
}

RandomChoice random_choice(const py::dict& op) {
  auto branches = std::make_shared<ChoiceBranches>();
  for (const py::handle list : field<py::list>(op, "branches")) {
    std::vector<TransformSpec>& made = branches->lists.emplace_back();
    for (const py::handle step : list.cast<py::list>()) made.push_back(make_spec(step.cast<py::dict>()));
  }
  return {field<std::vector<double>>(op, "weights"), std::move(branches)};
}

AugmentKind augment_kind(const py::dict& op) {
  const auto value = field<std::string>(op, "kind");
  const auto found = std::find(kAugmentNames.begin(), kAugmentNames.end(), value);
  if (found == kAugmentNames.end()) throw unknown("kind", value);
  return static_cast<AugmentKind>(found - kAugmentNames.begin());
}

AugmentLevel augment_level(const py::dict& op) {
  AugmentLevel level;
  take(op, "mean", level.mean);
  take(op, "std", level.deviation);
  take(op, "uniform", level.uniform);
  take(op, "most", level.most);
  take(op, "offset", level.offset);
  take(op, "scale", level.scale);
  take(op, "least", level.least);
  take(op, "most_value", level.greatest);
  take(op, "truncated", level.truncated);
  return level;
}

AugmentOp augment_op(const py::dict& op) {
  AugmentOp result;
  result.kind = augment_kind(op);
  take(op, "p", result.p);
  take(op, "values", result.values);
  if (op.contains("level")) result.level = augment_level(field<py::dict>(op, "level"));
  take(op, "base", result.base);
  take(op, "signed", result.is_signed);
  take(op, "share", result.share);
  take(op, "bins", result.bins);
  take(op, "whole", result.whole);
  take(op, "least_bits", result.least_bits);
  return result;
}

AugmentPolicy augment_policy(const py::dict& op) {
  AugmentPolicy policy;
  take(op, "p", policy.p);
  take(op, "count", policy.count);
  take(op, "replace", policy.replace);
  for (const py::handle item : field<py::list>(op, "branches")) {
    const auto branch = item.cast<py::dict>();
    AugmentBranch& made = policy.branches.emplace_back();
    take(branch, "weight", made.weight);
    for (const py::handle part : field<py::list>(branch, "ops"))
      made.ops.push_back(augment_op(part.cast<py::dict>()));
  }
  policy.interpolations = interpolations(op);
  take(op, "fill", policy.fill);
  policy.geometry = choice<AugmentPolicy::Geometry>(
      op, "geometry",
      {{"torchvision", AugmentPolicy::Geometry::torchvision}, {"pillow", AugmentPolicy::Geometry::pillow}});
  return policy;
}

}  // namespace

TransformSpec make_spec(const py::dict& op) {
  const auto name = field<std::string>(op, "op");
  if (name == "random_resized_crop") {
    const auto [scale_min, scale_max] = field<std::pair<double, double>>(op, "scale");
    const auto [ratio_min, ratio_max] = field<std::pair<double, double>>(op, "ratio");
    return RandomResizedCrop{field<int32_t>(op, "height"),
                             field<int32_t>(op, "width"),
                             scale_min,
                             scale_max,
                             ratio_min,
                             ratio_max,
                             interpolation(op),
                             flag(op, "of_tensor"),
                             interpolations(op)};
  }
  if (name == "resize")
    return Resize{field<int32_t>(op, "height"), field<int32_t>(op, "width"), field<int32_t>(op, "max_size"),
                  interpolation(op), flag(op, "of_tensor")};
  if (name == "center_crop") {
    using Place = CenterCrop::Place;
    CenterCrop crop{field<int32_t>(op, "height"), field<int32_t>(op, "width")};
    if (op.contains("place"))
      crop.place = choice<Place>(op, "place",
                                 {{"top_left", Place::top_left},
                                  {"top_right", Place::top_right},
                                  {"bottom_left", Place::bottom_left},
                                  {"bottom_right", Place::bottom_right},
                                  {"middle", Place::middle}});
    return crop;
  }
  if (name == "random_crop")
    return RandomCrop{field<int32_t>(op, "height"),
                      field<int32_t>(op, "width"),
                      field<std::array<int32_t, 4>>(op, "padding"),
                      field<bool>(op, "pad_if_needed"),
                      field<std::array<uint8_t, 3>>(op, "fill"),
                      choice<PaddingMode>(op, "padding_mode", kPaddingModes)};
  if (name == "frame") return frame(op);
  if (name == "drawn_resize") return drawn_resize(op);
  if (name == "random_perspective")
    return RandomPerspective{field<double>(op, "distortion_scale"), field<double>(op, "p"), interpolation(op),
                             field<std::array<uint8_t, 3>>(op, "fill")};
  if (name == "horizontal_flip") return HorizontalFlip{field<double>(op, "p")};
  if (name == "vertical_flip") return VerticalFlip{field<double>(op, "p")};
  if (name == "exif_transpose") return ExifTranspose{};
  if (name == "color_jitter")
    return ColorJitter{optional_range(op, "brightness"), optional_range(op, "contrast"),
                       optional_range(op, "saturation"), optional_range(op, "hue"), field<double>(op, "p")};
  if (name == "grayscale") return Grayscale{};
  if (name == "random_grayscale") return RandomGrayscale{field<double>(op, "p")};
  if (name == "random_rotation")
    return RandomRotation{range(op, "degrees"), interpolation(op),
                          optional_field<std::array<double, 2>>(op, "center"),
                          field<std::array<uint8_t, 3>>(op, "fill")};
  if (name == "random_affine") return random_affine(op);
  if (name == "gaussian_blur") {
    const auto [width, height] = field<std::pair<int32_t, int32_t>>(op, "kernel_size");
    return GaussianBlur{width, height, range(op, "sigma"), field<double>(op, "p")};
  }
  if (name == "random_erasing") return random_erasing(op);
  if (name == "random_choice") return random_choice(op);
  if (name == "gaussian_noise")
    return GaussianNoise{field<double>(op, "mean"), field<double>(op, "sigma"), field<bool>(op, "clip")};
  if (name == "photometric_distort")
    return PhotometricDistort{range(op, "brightness"), range(op, "contrast"), range(op, "saturation"),
                              range(op, "hue"), field<double>(op, "p")};
  if (name == "augment_policy") return augment_policy(op);
  if (name == "augmix")
    return AugMix{augment_policy(field<py::dict>(op, "policy")), field<int32_t>(op, "width"),
                  field<int32_t>(op, "depth"), field<double>(op, "alpha"), flag(op, "blended")};
  if (name == "to_tensor")
    return ToTensor{choice<OutputType>(op, "dtype",
                                       {{"uint8", OutputType::u8},
                                        {"float16", OutputType::f16},
                                        {"bfloat16", OutputType::bf16},
                                        {"float32", OutputType::f32},
                                        {"float64", OutputType::f64}}),
                    flag(op, "multiply"), op.contains("channels") ? field<int32_t>(op, "channels") : 3};
  if (name == "normalize")
    return Normalize{field<std::vector<double>>(op, "mean"), field<std::vector<double>>(op, "std")};
  throw py::value_error("transform '" + name + "' is not known to the native pipeline");
}

}  // namespace millrace::python
