// Pixels against torchvision on Pillow, by checksums made once (make_golden.py): every chain must give the
// same bytes.
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "transforms/affine_matrix.h"
#include "transforms/image_pipeline.h"
#include "transforms/placed_steps.h"

namespace millrace::transforms {
namespace {

struct Golden {
  const char* chain;
  int32_t width, height;
  int orientation;
  int32_t out_height, out_width;
  uint64_t checksum;
};

const Golden kGolden[] = {
#define GOLDEN(...) {__VA_ARGS__},
#include "golden.inc"
#undef GOLDEN
};

std::vector<uint8_t> picture_of(int32_t width, int32_t height) {
  std::vector<uint8_t> pixels(size_t(width) * height * base::kPixelBytes, 0xEE);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t noise = (x * 2654435761 + y * 40503 + c * 97) % 4294967296 >> 7;
        const int64_t value = (x / 9 + y / 7) % 3 == 0 ? noise : x * 5 + y * 3 + c * 40;
        pixels[(y * width + x) * base::kPixelBytes + c] = static_cast<uint8_t>(value);
      }
  return pixels;
}

Interpolation mode_of(const std::string& letter) {
  return letter == "l"   ? Interpolation::bilinear
         : letter == "c" ? Interpolation::bicubic
                         : Interpolation::nearest;
}

const std::map<std::string, AugmentKind> kKinds = {
    {"sharpness", AugmentKind::sharpness},   {"posterize", AugmentKind::posterize},
    {"solarize", AugmentKind::solarize},     {"autocontrast", AugmentKind::autocontrast},
    {"equalize", AugmentKind::equalize},     {"invert", AugmentKind::invert},
    {"gaussian", AugmentKind::gaussian_blur}};

// Words with comma-separated arguments, as make_golden.py reads them; the random decisions become
// SampleParams.
struct Parsed {
  std::vector<TransformSpec> chain;
  SampleParams params;

  explicit Parsed(const Golden& golden) {
    std::istringstream steps(golden.chain);
    for (std::string step; steps >> step;) {
      std::istringstream fields(step);
      std::string name, field, mode;
      std::vector<int32_t> n;
      std::getline(fields, name, ',');
      while (std::getline(fields, field, ',')) {
        if (std::isalpha(static_cast<unsigned char>(field[0])))
          mode = field;
        else
          n.push_back(std::stoi(field));
      }
      const auto op = static_cast<uint32_t>(chain.size());
      const PictureSize size = size_here({golden.width, golden.height});
      const auto add_map = [&](uint8_t kind, const InverseAffine& inverse) {
        params.ops.push_back({.kind = kind,
                              .op = op,
                              .box = {},
                              .applied = false,
                              .orientation = 1,
                              .color = {},
                              .inverse = inverse});
      };
      if (name == "exif") {
        chain.push_back(ExifTranspose{});
        params.ops.push_back({.kind = kKindOf<ExifTranspose>,
                              .op = op,
                              .box = {},
                              .applied = false,
                              .orientation = golden.orientation});
      } else if (name == "hflip") {
        chain.push_back(HorizontalFlip{});
        params.ops.push_back({.kind = kKindOf<HorizontalFlip>, .op = op, .box = {}, .applied = true});
      } else if (name == "vflip") {
        chain.push_back(VerticalFlip{});
        params.ops.push_back({.kind = kKindOf<VerticalFlip>, .op = op, .box = {}, .applied = true});
      } else if (name == "resize") {
        chain.push_back(Resize{n[0], n[1], n[2], mode_of(mode)});
      } else if (name == "center") {
        chain.push_back(CenterCrop{n[0], n[1]});
      } else if (name == "rrc") {
        chain.push_back(RandomResizedCrop{.height = n[0], .width = n[1], .interpolation = mode_of(mode)});
        OpParams& crop = params.ops.emplace_back();
        crop.kind = kKindOf<RandomResizedCrop>;
        crop.op = op;
        crop.box = {n[2], n[3], n[4], n[5]};
        crop.interpolation = mode_of(mode);
      } else if (name == "brightness" || name == "contrast" || name == "saturation" || name == "hue") {
        chain.push_back(ColorJitter{});
        params.ops.push_back({.kind = kKindOf<ColorJitter>,
                              .op = op,
                              .box = {},
                              .applied = false,
                              .orientation = 1,
                              .color = color_of(name, n[0] / 100.0)});
      } else if (name == "grey") {
        chain.push_back(Grayscale{});
      } else if (name == "rotate") {
        chain.push_back(RandomRotation{.interpolation = mode_of(mode), .fill = {1, 2, 3}});
        add_map(kKindOf<RandomRotation>, rotation_inverse(n[0], {}, size));
      } else if (name == "affine") {
        chain.push_back(RandomAffine{.interpolation = mode_of(mode), .fill = {1, 2, 3}});
        add_map(kKindOf<RandomAffine>, affine_inverse({.angle = double(n[0]),
                                                       .scale = n[3] / 100.0,
                                                       .translate_x = n[1],
                                                       .translate_y = n[2],
                                                       .shear_x = double(n[4]),
                                                       .shear_y = double(n[5])},
                                                      {}, size));
      } else if (kKinds.contains(name)) {
        chain.push_back(AugmentPolicy{.branches = {{}}});
        OpParams& policy = params.ops.emplace_back();
        policy.kind = kKindOf<AugmentPolicy>;
        policy.op = op;
        policy.steps = {{.kind = kKinds.at(name), .value = n.empty() ? 0 : n[0] / 100.0}};
      } else {
        EXPECT_EQ(name, "crop");
        const auto fill = static_cast<uint8_t>(n[1]);
        chain.push_back(
            RandomCrop{.height = n[3],
                       .width = n[4],
                       .padding = {n[2], n[2], n[2], n[2]},
                       .pad_if_needed = false,
                       .fill = {fill, static_cast<uint8_t>(fill + 1), static_cast<uint8_t>(fill + 2)},
                       .padding_mode = static_cast<PaddingMode>(n[0])});
        params.ops.push_back({.kind = kKindOf<RandomCrop>, .op = op, .box = {n[5], n[6], n[4], n[3]}});
      }
    }
    chain.push_back(ToTensor{OutputType::u8});
  }

 private:
  // The picture's size after the chain so far.
  PictureSize size_here(PictureSize stored) const {
    std::vector<TransformSpec> specs = chain;
    specs.push_back(ToTensor{});
    const Chain so_far = check_chain(specs);
    PictureSize size = stored;
    PictureSteps steps;
    place_steps(so_far, stored, params, steps);
    for (const PictureStep& step : steps) size = size_after(step, size);
    return size;
  }

  static ColorJitterParams color_of(const std::string& name, double factor) {
    ColorJitterParams color;
    if (name == "brightness")
      color.order[0] = ColorOp::brightness, color.brightness = factor;
    else if (name == "contrast")
      color.order[0] = ColorOp::contrast, color.contrast = factor;
    else if (name == "saturation")
      color.order[0] = ColorOp::saturation, color.saturation = factor;
    else
      color.order[0] = ColorOp::hue, color.hue = factor;
    return color;
  }
};

uint64_t checksum_of(const std::vector<uint8_t>& bytes) {
  uint64_t h = 0xCBF29CE484222325;
  for (const uint8_t byte : bytes) h = (h ^ byte) * 0x100000001B3;
  return h;
}

class GoldenTest : public testing::TestWithParam<Golden> {};

TEST_P(GoldenTest, GivesPillowsBytes) {
  const Golden& golden = GetParam();
  const Parsed parsed(golden);
  const auto pipeline = ImagePipeline::create(parsed.chain);
  const auto scratch = ImagePipeline::make_scratch();
  const auto need = pipeline->plan(golden.width, golden.height, parsed.params, *scratch);
  ASSERT_EQ(need.shape, (OutputShape{3, golden.out_height, golden.out_width}));

  // Only the region, in memory of exactly its size: a read outside of it is the address sanitizer's to find.
  const std::vector<uint8_t> picture = picture_of(golden.width, golden.height);
  const base::Rect r = need.region;
  std::vector<uint8_t> region(size_t(r.width) * r.height * base::kPixelBytes);
  for (int32_t y = 0; y < r.height; ++y) {
    const auto* row = picture.data() + (size_t(r.top + y) * golden.width + r.left) * base::kPixelBytes;
    std::copy(row, row + r.width * base::kPixelBytes,
              region.data() + size_t(y) * r.width * base::kPixelBytes);
  }
  std::vector<uint8_t> out(size_t(3) * golden.out_height * golden.out_width);
  pipeline->apply({region.data(), r.width, r.height, r.width * base::kPixelBytes}, *scratch, out.data());
  EXPECT_EQ(checksum_of(out), golden.checksum) << golden.chain;
}

INSTANTIATE_TEST_SUITE_P(Chains, GoldenTest, testing::ValuesIn(kGolden));

}  // namespace
}  // namespace millrace::transforms
