// Counts of bytes on the GPU, a block's threads run by the CPU, against the reference.
#include <gtest/gtest.h>

#include <random>

#include "emulated_block.h"

namespace millrace::cuda {
namespace {
unsigned counts[3 * 256];  // what the kernel declares as its block's
}
}  // namespace millrace::cuda

#include "cuda/count_levels.cuh"
#include "device/kernel_launch.h"

namespace millrace::cuda {
namespace {

TEST(CountLevels, EqualsTheReference) {
  constexpr int32_t kWidth = 61, kHeight = 83;
  std::mt19937 random(3);
  std::vector<uint32_t> pictures(2 * kWidth * kHeight);
  for (uint32_t& word : pictures) word = static_cast<uint32_t>(random());  // the fourth byte, too
  std::vector<device::Levels> reference(2), blocks(2);
  std::vector<device::Pass> passes(2);
  for (size_t i = 0; i < 2; ++i) {
    device::Pass& p = passes[i];
    p.kind = i == 0 ? device::PassKind::count_grey : device::PassKind::count_channels;
    p.pictures = pictures.data() + i * kWidth * kHeight;
    p.width = kWidth - static_cast<int32_t>(i), p.height = kHeight;  // of different sizes
    p.levels = &reference[i];
  }
  const device::CountKernel kernel{{passes.data(), {0, 2}, passes[0].groups()}};
  device::reference::count_levels(kernel);
  for (size_t i = 0; i < 2; ++i) passes[i].levels = &blocks[i];
  run_grid({2, 2, 1}, kCountThreads, [&] { count_groups(kernel); });
  for (size_t i = 0; i < 2; ++i)
    for (size_t k = 0; k < 3 * 256; ++k)
      ASSERT_EQ(blocks[i].counts[k], reference[i].counts[k]) << i << " " << k;
  uint32_t sum = 0;
  for (size_t k = 0; k < 256; ++k) sum += reference[0].counts[k];
  EXPECT_EQ(sum, static_cast<uint32_t>(kWidth * kHeight));
}

}  // namespace
}  // namespace millrace::cuda
