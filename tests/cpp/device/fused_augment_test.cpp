// The CPU reference of the fused augmentation against the CPU transforms: the same crops and flips, the same
// pixels.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "device/augmentation_builder.h"
#include "device/fused_augment.h"
#include "millrace/error.h"
#include "test_images.h"
#include "transforms/image_pipeline.h"

namespace millrace::device {
namespace {

// A picture with edges, gradients and noise, as RGBX for the pipeline and as RGB for the kernels.
struct Picture {
  int32_t width, height;
  std::vector<uint8_t> rgbx, rgb;
  int32_t pitch;

  Picture(int32_t w, int32_t h, uint32_t seed)
      : width(w), height(h), rgbx(static_cast<size_t>(w) * h * 4), pitch(w * 3 + 5) {
    rgb.resize(static_cast<size_t>(pitch) * h);
    std::mt19937 random(seed);
    for (int32_t y = 0; y < h; ++y)
      for (int32_t x = 0; x < w; ++x)
        for (int c = 0; c < 3; ++c) {
          const int v = (x / 17 + y / 13) % 2 * 150 + x * 60 / w + (c + 1) * y * 10 / h +
                        static_cast<int>(random() % 16);
          rgbx[(static_cast<size_t>(y) * w + x) * 4 + c] = rgb[static_cast<size_t>(y) * pitch + x * 3 + c] =
              static_cast<uint8_t>(v);
        }
  }
  DecodedPicture decoded() const { return {rgb.data(), width, height, pitch, 3}; }

  // What the CPU transforms make of it, CHW.
  std::vector<float> through(const transforms::ImagePipeline& pipeline,
                             const transforms::SampleParams& params) {
    const auto scratch = transforms::ImagePipeline::make_scratch();
    const auto need = pipeline.plan(width, height, params, *scratch);
    const base::ImageView region{
        rgbx.data() + (static_cast<size_t>(need.region.top) * width + need.region.left) * 4,
        need.region.width, need.region.height, width * 4};
    std::vector<float> out(static_cast<size_t>(3) * need.shape.height * need.shape.width);
    pipeline.apply(region, *scratch, out.data());
    return out;
  }
};

std::vector<double> kMean{0.485, 0.456, 0.406}, kStd{0.229, 0.224, 0.225};

// Runs the reference; the result as CHW floats.
std::vector<float> augmented(const Picture& picture, const Augmentation& a, int32_t h, int32_t w,
                             base::DType type = base::DType::f32) {
  TestImages out(type, 1, 3, h, w);
  const std::vector<Augmentation> all{a};
  std::vector<int64_t> workspace(fused_workspace_bytes(all, h, w) / 8 + 1);
  const bool bytes = type == base::DType::u8;
  const std::vector<double> none;
  fused_augment(std::vector{picture.decoded()}, all, bytes ? none : kMean, bytes ? none : kStd, out.images,
                workspace.data(), {});
  std::vector<float> values;
  for (int32_t c = 0; c < 3; ++c)
    for (int64_t p = 0; p < out.images.pixels(); ++p) values.push_back(out.at(0, p, c));
  return values;
}

// The last bits of f32 may differ, far less than a level.
void expect_the_same_pixels(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::fmax(most, std::fabs(a[i] - b[i]));
  EXPECT_LE(most, 1e-5f);
}

TEST(FusedAugment, RandomCropsEqualTheCpuTransforms) {
  const std::pair<int32_t, int32_t> sizes[] = {{500, 375}, {333, 517}, {64, 48}, {1200, 30}, {40, 900}};
  for (const auto& [interpolation, of_tensor] : {std::pair{Interpolation::bilinear, false},
                                                 {Interpolation::bicubic, false},
                                                 {Interpolation::bilinear, true},
                                                 {Interpolation::bicubic, true}}) {
    const auto pipeline = transforms::ImagePipeline::create(
        {RandomResizedCrop{56, 72, 0.08, 1.0, 0.75, 1.3333, interpolation, of_tensor}, HorizontalFlip{},
         VerticalFlip{}, ToTensor{}, Normalize{kMean, kStd}});
    for (const auto& [width, height] : sizes)
      for (int64_t index = 0; index < 6; ++index) {
        Picture picture(width, height, 3);
        const transforms::SampleParams drawn = pipeline->draw(width, height, 1, {1, 0, index, 0});
        Augmentation a;
        a.crop = drawn.ops[0].box;
        a.width = 72, a.height = 56;
        a.interpolation = interpolation;
        a.of_tensor = of_tensor;
        a.flip_horizontal = drawn.ops[1].applied, a.flip_vertical = drawn.ops[2].applied;
        expect_the_same_pixels(augmented(picture, a, 56, 72), picture.through(*pipeline, drawn));
      }
  }
}

TEST(FusedAugment, ResizedAndCroppedInTheMiddle) {
  for (const auto& [width, height] : {std::pair{500, 375}, {90, 120}, {37, 41}}) {
    const auto pipeline = transforms::ImagePipeline::create(
        {Resize{64, 80}, CenterCrop{56, 100}, ToTensor{}, Normalize{kMean, kStd}});
    Picture picture(width, height, 4);
    Augmentation a;
    a.crop = {0, 0, width, height};
    a.width = 80, a.height = 64;
    a.left = -10, a.top = 4;  // wider than the picture: black on both sides
    expect_the_same_pixels(augmented(picture, a, 56, 100),
                           picture.through(*pipeline, pipeline->draw(width, height, 1, {})));
  }
}

// Flipped first, cropped with padding, then resized: told to the builder as the chain decides it.
TEST(FusedAugment, ChainsToldToTheBuilder) {
  RandomCrop cut;
  cut.height = 40, cut.width = 48;
  cut.padding = {8, 8, 8, 8};
  const auto padded = transforms::ImagePipeline::create(
      {HorizontalFlip{}, cut, VerticalFlip{}, ToTensor{}, Normalize{kMean, kStd}});
  const auto small = transforms::ImagePipeline::create(
      {HorizontalFlip{}, Resize{60, 70}, cut, VerticalFlip{}, ToTensor{}, Normalize{kMean, kStd}});
  Picture picture(64, 57, 6);
  for (int64_t index = 0; index < 12; ++index) {
    const auto& pipeline = index % 2 ? *padded : *small;
    const transforms::SampleParams drawn = pipeline.draw(64, 57, 1, {2, 0, index, 0});
    AugmentationBuilder builder(64, 57);
    if (drawn.ops[0].applied) builder.flip_horizontal();
    if (index % 2 == 0) builder.resize(70, 60, Interpolation::bilinear);
    const base::Rect& box = drawn.ops[1].box;  // of the padded picture
    builder.crop({box.left - 8, box.top - 8, box.width, box.height});
    if (drawn.ops[2].applied) builder.flip_vertical();
    expect_the_same_pixels(augmented(picture, builder.result().value(), 40, 48),
                           picture.through(pipeline, drawn));
  }
}

TEST(FusedAugment, TypesAndLayoutsAgree) {
  Picture picture(301, 200, 5);
  Augmentation a;
  a.crop = {3, 5, 251, 180};
  a.width = 33, a.height = 47;
  a.jitter.order = {transforms::ColorOp::brightness, transforms::ColorOp::contrast,
                    transforms::ColorOp::saturation, transforms::ColorOp::hue};
  a.jitter.brightness = 1.3, a.jitter.contrast = 0.6, a.jitter.saturation = 1.5, a.jitter.hue = -0.2;
  const auto f32 = augmented(picture, a, 47, 33), f16 = augmented(picture, a, 47, 33, base::DType::f16);
  const auto u8 = augmented(picture, a, 47, 33, base::DType::u8);
  for (size_t i = 0; i < f32.size(); ++i) {
    const size_t c = i / (f32.size() / 3);
    EXPECT_NEAR(f32[i], (u8[i] / 255 - kMean[c]) / kStd[c], 1e-5);
    EXPECT_EQ(f16[i], float_of_half(half_of(f32[i])));
  }
}

// More pictures than a chunk, of different sizes: each as it is alone.
TEST(FusedAugment, ABatchIsItsPictures) {
  std::vector<Picture> pictures;
  for (int32_t i = 0; i < 60; ++i) pictures.emplace_back(40 + i, 90 - i, static_cast<uint32_t>(i));
  std::vector<DecodedPicture> decoded;
  std::vector<Augmentation> all;
  for (const Picture& p : pictures) {
    decoded.push_back(p.decoded());
    Augmentation a;
    a.crop = {1, 2, p.width - 3, p.height - 4};
    a.width = a.height = 20;
    a.grayscale = all.size() % 3 == 0;
    if (all.size() % 2) a.jitter.order[1] = transforms::ColorOp::contrast, a.jitter.contrast = 0.5;
    all.push_back(a);
  }
  TestImages out(base::DType::f32, 60, 3, 20, 20, true);
  std::vector<int64_t> workspace(fused_workspace_bytes(all, 20, 20) / 8 + 1, -1);
  fused_augment(decoded, all, kMean, kStd, out.images, workspace.data(), {});
  for (size_t i = 0; i < pictures.size(); ++i) {
    const auto alone = augmented(pictures[i], all[i], 20, 20);
    for (int32_t c = 0; c < 3; ++c)
      for (int64_t p = 0; p < 400; ++p)
        ASSERT_EQ(out.at(static_cast<int64_t>(i), p, c), alone[static_cast<size_t>(c * 400 + p)]);
  }
}

TEST(FusedAugment, WhatDoesNotFitIsRefused) {
  Picture picture(30, 20, 1);
  const auto refusal = [&](Augmentation a) {
    try {
      augmented(picture, a, 8, 8);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  Augmentation good;
  good.crop = {0, 0, 30, 20};
  good.width = good.height = 8;
  EXPECT_EQ(refusal(good), "");
  Augmentation bad = good;
  bad.crop.left = 1;
  EXPECT_NE(refusal(bad).find("20 x 30"), std::string::npos);
  bad = good;
  bad.width = 0;
  EXPECT_NE(refusal(bad).find("nothing"), std::string::npos);
  bad = good;
  bad.interpolation = Interpolation::nearest;
  EXPECT_NE(refusal(bad).find("by a filter"), std::string::npos);
}

}  // namespace
}  // namespace millrace::device
