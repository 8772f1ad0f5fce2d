// The GPU's resize, its threads run by the CPU, against the reference: the same bits for both orders of
// passes, odd sizes, flips, crops over the edge, rows at any alignment, and shrinking that needs many bands.
#include <gtest/gtest.h>

#include <random>

#include "emulated_block.h"

namespace millrace::cuda {
namespace {
alignas(16) uint8_t block_memory[64 << 10];  // what the kernel declares as its block's
}
}  // namespace millrace::cuda

#include "cuda/resample_tile.cuh"
#include "device/batch_ops.h"
#include "device/kernel_launch.h"

namespace millrace::cuda {
namespace {

struct Sample {
  int32_t in_width, in_height, resized_width, resized_height, left, top, pixel_bytes;
  Interpolation filter;
  bool flip_x, flip_y, contrast;
  int32_t width = 45, height = 37;  // of the result
  bool transposed = false;
};
constexpr Interpolation kLinear = Interpolation::bilinear, kCubic = Interpolation::bicubic;
const Sample kSamples[] = {
    {97, 61, 45, 37, 0, 0, 3, kLinear, false, false, false},   // across first
    {50, 200, 45, 37, 0, 0, 3, kLinear, true, false, true},    // down first
    {50, 201, 45, 37, 0, 0, 4, kCubic, false, true, false},    // four bytes a pixel
    {20, 15, 60, 70, 9, 20, 3, kCubic, true, true, true},      // larger, and cut
    {33, 40, 30, 31, -9, 4, 3, kLinear, false, false, false},  // smaller than the output: black around it
    {1500, 40, 45, 37, 0, 0, 3, kCubic, false, false, true},   // wide inputs: bands of few rows
    {40, 1900, 45, 37, 0, 0, 3, kCubic, false, false, false},  // tall inputs: many pieces
    {1, 1, 45, 37, 0, 0, 3, kLinear, false, false, false},
    {60, 50, 37, 45, 0, 0, 3, kLinear, true, false, false, 37, 45, true},   // turned
    {60, 250, 37, 45, 0, 0, 3, kLinear, false, false, true, 37, 45, true},  // turned, and waits for its mean
    {90, 250, 40, 33, 2, 1, 3, Interpolation::lanczos, true, false, false, 30, 31, false},
    {90, 50, 40, 73, 2, 1, 4, Interpolation::box, false, true, true, 30, 31, false},
    {40, 50, 45, 37, 0, 0, 3, Interpolation::hamming, false, false, false},
    {70, 64, 80, 66, 5, 1, 3, kLinear, false, false, true, 71, 64,
     false},  // larger than the batch's pictures
};

TEST(ResampleTile, EqualsTheReference) {
  constexpr int32_t kWidth = 45, kHeight = 37, kCount = std::size(kSamples);
  std::mt19937 random(11);
  std::vector<std::vector<uint8_t>> pictures;
  std::vector<float> by_reference(kCount * 3 * kWidth * kHeight, -1), by_tiles = by_reference;
  constexpr size_t kRoom = 71 * 64;
  std::vector<uint32_t> resized_reference(kCount * kRoom), resized_tiles = resized_reference;
  std::vector<int64_t> sums_reference(kCount), sums_tiles(kCount);

  auto kernel = std::make_unique<device::FusedKernel>();
  kernel->out = {by_reference.data(), base::DType::f32, kCount, 3, kHeight, kWidth, false};
  kernel->samples = {0, kCount};
  for (int c = 0; c < 3; ++c) kernel->scale[c] = 1, kernel->shift[c] = 0;
  int32_t entries = 0;
  for (int32_t i = 0; i < kCount; ++i) {
    const Sample& s = kSamples[i];
    device::FusedParams& p = kernel->params[i];
    p = {};
    p.pitch = s.in_width * s.pixel_bytes + 7 * (i % 2);
    auto& bytes = pictures.emplace_back(static_cast<size_t>(p.pitch) * s.in_height -
                                        7 * (i % 2));  // ends with the last pixel
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
    p.pixels = bytes.data();
    p.pixel_bytes = s.pixel_bytes;
    p.in_width = s.in_width, p.in_height = s.in_height, p.resized_width = s.resized_width,
    p.resized_height = s.resized_height;
    p.left = s.left, p.top = s.top;
    p.width = s.width, p.height = s.height;
    p.transposed = s.transposed;
    kernel->most_width = std::max(kernel->most_width, s.width);
    kernel->most_height = std::max(kernel->most_height, s.height);
    p.filter = s.filter, p.flip_x = s.flip_x, p.flip_y = s.flip_y;
    p.vertical_first = s.in_height - s.resized_height > 2 * (s.in_width - s.resized_width);
    if (s.contrast) p.jitter.order[1] = device::JitterParams::contrast;
    p.x_taps = static_cast<uint16_t>(device::taps_of(s.in_width, s.resized_width, s.filter));
    p.y_taps = static_cast<uint16_t>(device::taps_of(s.in_height, s.resized_height, s.filter));
    p.x_table = entries;
    p.y_table = entries + s.width * (1 + p.x_taps);
    entries = p.y_table + s.height * (1 + p.y_taps);
  }
  std::vector<int32_t> table(static_cast<size_t>(entries));
  kernel->table = table.data();
  const auto pictures_in = [&](std::vector<uint32_t>& memory) {
    for (size_t i = 0; i < kCount; ++i)
      if (kSamples[i].contrast) kernel->params[i].picture = memory.data() + i * kRoom;
  };
  pictures_in(resized_reference);
  kernel->grey_sums = sums_reference.data();
  device::reference::launch(device::WeightsKernel{*kernel});
  device::reference::resample(*kernel);

  kernel->out.data = by_tiles.data();
  pictures_in(resized_tiles);
  kernel->grey_sums = sums_tiles.data();
  const int32_t stage_bytes = cuda::stage_bytes_of(*kernel);
  ASSERT_LE(cuda::shared_bytes_of(stage_bytes), static_cast<int32_t>(sizeof(cuda::block_memory)));
  run_grid({3, 2, kCount}, cuda::kThreads, [&] { cuda::resample_tile(*kernel, stage_bytes); });

  EXPECT_EQ(sums_tiles, sums_reference);
  EXPECT_EQ(resized_tiles, resized_reference);
  for (size_t i = 0; i < by_tiles.size(); ++i)
    ASSERT_EQ(by_tiles[i], by_reference[i])
        << "sample " << i / (3 * kWidth * kHeight) << ", element " << i % (3 * kWidth * kHeight);
}

}  // namespace
}  // namespace millrace::cuda
