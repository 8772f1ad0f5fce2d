// Operations on batches: what holds for every type, layout and size, and what is refused. Values are compared
// with torchvision's in tests/python/test_batch_transforms.py.
#include <gtest/gtest.h>

#include <numeric>

#include "device/batch_ops.h"
#include "millrace/error.h"
#include "test_images.h"

namespace millrace::device {
namespace {

const Place kCpu;

transforms::ColorJitterParams every_colour() {
  transforms::ColorJitterParams p;
  p.order = {transforms::ColorOp::saturation, transforms::ColorOp::hue, transforms::ColorOp::contrast,
             transforms::ColorOp::brightness};
  p.brightness = 1.2, p.contrast = 0.7, p.saturation = 1.4, p.hue = 0.1;
  return p;
}

// All operations one after the other, from `in` to `out`; more samples than a chunk holds.
void run_all(const TestImages& in, TestImages& out) {
  const BatchImages& shape = in.images;
  TestImages a(shape.type, shape.n, shape.c, shape.h, shape.w, shape.channels_last), b = a;
  b.images.data = b.memory.data() + (static_cast<uint8_t*>(a.images.data) - a.memory.data());
  const auto n = static_cast<size_t>(shape.n);
  std::vector<uint8_t> every_other(n);
  for (size_t i = 0; i < n; ++i) every_other[i] = i % 2;
  flip_horizontal(in.images, a.images, every_other, kCpu);
  affine(a.images, b.images, std::vector<transforms::InverseAffine>(n, {0.9, 0.2, 1.0, -0.2, 1.1, 0.5}), true,
         std::vector{0.0}, kCpu);
  std::vector<int64_t> sums(n);
  color_jitter(b.images, a.images, std::vector<transforms::ColorJitterParams>(n, every_colour()), every_other,
               sums.data(), kCpu);
  erase(a.images, a.images, std::vector<base::Rect>(n, {1, 2, 3, 2}), std::vector{1.0}, 0, kCpu);
  std::vector<MixParams> mixed(n);
  for (size_t i = 0; i < n; ++i) mixed[i] = {static_cast<int64_t>((i + 1) % n), 1.0, {2, 0, 4, 3}};
  mix(a.images, b.images, mixed, kCpu);
  normalize(b.images, out.images, std::vector{0.5}, std::vector{0.25}, kCpu);
}

TEST(BatchOps, LayoutsSizesAndTypesAgree) {
  for (const auto& [h, w] : {std::pair{7, 9}, {4, 16}, {1, 1}, {3, 5}})
    for (const base::DType type : kImageTypes)
      for (const int32_t c : {1, 3}) {
        TestImages planes(type, 131, c, h, w), pixels(type, 131, c, h, w, true, 0);
        planes.fill();
        pixels.fill();
        TestImages a(base::DType::f32, 131, c, h, w), b(base::DType::f32, 131, c, h, w, true, 4);
        run_all(planes, a);
        run_all(pixels, b);
        EXPECT_EQ(largest_difference(a, b), 0) << base::dtype_name(type) << " " << c << " " << h << " " << w;
      }
}

TEST(BatchOps, TwoFlipsAreNone) {
  for (const int32_t w : {1, 7, 8, 9, 24}) {
    TestImages in(base::DType::u8, 2, 3, 5, w), once(base::DType::u8, 2, 3, 5, w),
        twice(base::DType::u8, 2, 3, 5, w);
    in.fill();
    flip_horizontal(in.images, once.images, std::vector<uint8_t>{1, 0}, kCpu);
    for (int32_t y = 0; y < 5; ++y)
      for (int32_t x = 0; x < w; ++x) {
        EXPECT_EQ(once.at(0, y * w + x, 1), in.at(0, y * w + w - 1 - x, 1));
        EXPECT_EQ(once.at(1, y * w + x, 1), in.at(1, y * w + x, 1));
      }
    flip_horizontal(once.images, twice.images, std::vector<uint8_t>{1, 0}, kCpu);
    EXPECT_EQ(largest_difference(in, twice), 0);
  }
}

TEST(BatchOps, NeutralParametersChangeNothing) {
  for (const base::DType type : kImageTypes) {
    TestImages in(type, 3, 3, 6, 11), out(type, 3, 3, 6, 11);
    in.fill();
    std::vector<int64_t> sums(3);
    transforms::ColorJitterParams neutral = every_colour();
    neutral.brightness = neutral.contrast = neutral.saturation = 1, neutral.hue = 0;
    neutral.order[1] = transforms::ColorOp::none;  // hue turns through another colour space, which rounds
    color_jitter(in.images, out.images, std::vector(3, neutral), std::vector<uint8_t>(3), sums.data(), kCpu);
    EXPECT_LE(largest_difference(in, out), type == base::DType::u8 ? 0 : 1e-6f) << base::dtype_name(type);
    for (const bool bilinear : {false, true}) {
      affine(in.images, out.images, std::vector<transforms::InverseAffine>(3, {1, 0, 0, 0, 1, 0}), bilinear,
             std::vector{0.0}, kCpu);
      EXPECT_EQ(largest_difference(in, out), 0);
    }
    erase(in.images, out.images, std::vector<base::Rect>(3), std::vector{0.0}, 0, kCpu);
    EXPECT_EQ(largest_difference(in, out), 0);
    mix(in.images, out.images, std::vector<MixParams>(3), kCpu);
    EXPECT_EQ(largest_difference(in, out), 0);
  }
}

TEST(BatchOps, NoiseIsNormalAndAFunctionOfItsSeed) {
  TestImages in(base::DType::f32, 2, 3, 64, 64), a = in, b = in, c = in;
  for (TestImages* t : {&a, &b, &c})
    t->images.data = t->memory.data() + (static_cast<uint8_t*>(in.images.data) - in.memory.data());
  const std::vector<base::Rect> whole(2, {0, 0, 64, 64});
  erase(in.images, a.images, whole, {}, 7, kCpu);
  erase(in.images, b.images, whole, {}, 7, kCpu);
  erase(in.images, c.images, whole, {}, 8, kCpu);
  EXPECT_EQ(largest_difference(a, b), 0);
  EXPECT_GT(largest_difference(a, c), 1);
  double sum = 0, squares = 0;
  const auto* v = static_cast<const float*>(a.images.data);
  for (int64_t i = 0; i < a.elements(); ++i) sum += v[i], squares += double{v[i]} * v[i];
  EXPECT_NEAR(sum / static_cast<double>(a.elements()), 0, 0.03);
  EXPECT_NEAR(squares / static_cast<double>(a.elements()), 1, 0.03);
}

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BatchOps, WhatDoesNotFitIsRefused) {
  TestImages u8(base::DType::u8, 2, 3, 4, 4), f32(base::DType::f32, 2, 3, 4, 4),
      wide(base::DType::u8, 2, 3, 4, 5), two(base::DType::u8, 2, 2, 4, 4);
  const std::vector<double> one{1.0}, none, bright{300.0};
  EXPECT_NE(refusal([&] { normalize(u8.images, wide.images, one, one, kCpu); }).find("(2, 3, 4, 5)"),
            std::string::npos);
  EXPECT_NE(refusal([&] { normalize(u8.images, u8.images, one, one, kCpu); }).find("uint8"),
            std::string::npos);
  EXPECT_NE(
      refusal([&] { normalize(u8.images, f32.images, one, std::vector{0.0}, kCpu); }).find("std is zero"),
      std::string::npos);
  EXPECT_NE(
      refusal([&] { normalize(u8.images, f32.images, std::vector{1.0, 2.0}, one, kCpu); }).find("2 values"),
      std::string::npos);
  const std::vector<uint8_t> flips(2), flips3(3);
  const std::vector<MixParams> halves(2, {0, 0.5, {}}), foreign(2, {9, 1.0, {}});
  EXPECT_NE(refusal([&] { flip_horizontal(two.images, two.images, flips, kCpu); }).find("1 or 3"),
            std::string::npos);
  EXPECT_NE(refusal([&] { flip_horizontal(u8.images, u8.images, flips3, kCpu); }).find("for 2 images"),
            std::string::npos);
  EXPECT_NE(
      refusal([&] { erase(u8.images, u8.images, std::vector<base::Rect>(2), none, 0, kCpu); }).find("noise"),
      std::string::npos);
  EXPECT_NE(
      refusal([&] { erase(u8.images, u8.images, std::vector<base::Rect>(2), bright, 0, kCpu); }).find("255"),
      std::string::npos);
  EXPECT_NE(refusal([&] { mix(u8.images, wide.images, std::vector<MixParams>(2), kCpu); }).find("shape"),
            std::string::npos);
  EXPECT_NE(refusal([&] { mix(u8.images, u8.images, halves, kCpu); }).find("normalise"), std::string::npos);
  EXPECT_NE(refusal([&] { mix(f32.images, f32.images, foreign, kCpu); }).find("partner 9"),
            std::string::npos);
  transforms::ColorJitterParams hue;
  hue.hue = 0.7;
  std::vector<int64_t> sums(2);
  const std::vector<transforms::ColorJitterParams> hues(2, hue);
  EXPECT_NE(refusal([&] { color_jitter(u8.images, u8.images, hues, flips, sums.data(), kCpu); }).find("hue"),
            std::string::npos);
}

TEST(BatchOps, AMissingDeviceSaysSo) {
  const std::string reason = cuda::missing_reason();
  if (reason.empty()) GTEST_SKIP() << "there is a CUDA device";
  TestImages u8(base::DType::u8, 1, 3, 4, 4), f32(base::DType::f32, 1, 3, 4, 4);
  EXPECT_NE(refusal([&] {
              normalize(u8.images, f32.images, std::vector{0.5}, std::vector{0.5}, Place{0, nullptr});
            }),
            "");
  EXPECT_NE(reason.find("CPU tensors"), std::string::npos) << reason;
}

}  // namespace
}  // namespace millrace::device
