// The decoder over nvJPEG with a fake library and a device that does its work as late as it may: which way
// pictures go, what comes back with which reason, and that no buffer is used again too early.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/kernel_launch.h"
#include "fake_nvjpeg.h"
#include "millrace/error.h"

namespace millrace::cuda {
namespace {

using fake::world;
using File = std::vector<uint8_t>;

File file(char kind, uint8_t width, uint8_t height, uint8_t colour, uint8_t components = 3) {
  return {0xFA, components, width, height, static_cast<uint8_t>(kind), colour};
}

struct Decoding {
  std::vector<File> files;  // stay until the device has done its work
  std::vector<device::JpegRequest> requests;
  std::vector<device::JpegResult> results;
  std::vector<uint8_t> memory;

  Decoding(device::GpuDecoder& decoder, std::vector<File> all, const std::vector<base::Rect>& regions = {})
      : files(std::move(all)) {
    for (size_t i = 0; i < files.size(); ++i)
      requests.push_back({files[i], regions.empty() ? base::Rect{} : regions[i]});
    memory.resize(decoder.plan(requests, results));
    decoder.decode(requests, results, memory.data(), nullptr);
  }
  // Whether picture i is all of one colour, and nothing else.
  bool is(size_t i, uint8_t colour) const {
    const device::JpegResult& r = results[i];
    const size_t bytes = static_cast<size_t>(r.pitch_bytes) * static_cast<size_t>(r.height);
    return r.problem.empty() && bytes > 0 &&
           std::all_of(memory.data() + r.offset, memory.data() + r.offset + bytes,
                       [&](uint8_t b) { return b == colour; });
  }
};

class NvjpegDecoder : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    world = {};
    world.hardware = GetParam();
    decoder = open();
  }
  void TearDown() override {
    decoder.reset();
    EXPECT_EQ(world.live, 0) << "objects of nvJPEG or events were left behind";
  }
  static std::unique_ptr<device::GpuDecoder> open(size_t ceiling = 1 << 20) {
    return cuda::make_nvjpeg_decoder(fake::library(), std::make_unique<fake::Device>(), ceiling);
  }
  std::unique_ptr<device::GpuDecoder> decoder;
};

TEST_P(NvjpegDecoder, EveryPictureGoesTheWayThatTakesIt) {
  const std::vector<File> files{file('b', 9, 7, 1),   file('p', 5, 4, 2),    file('x', 5, 4, 3),
                                file('b', 3, 3, 4),   file('b', 8, 8, 5, 4), {1, 2, 3, 4, 5, 6},
                                file('b', 2, 9, 7, 1)};
  EXPECT_EQ(decoder->has_hardware(), GetParam());
  Decoding run(*decoder, files);
  world.run_all();
  for (const auto& [i, colour] : {std::pair{0u, 1}, {1u, 2}, {3u, 4}, {6u, 7}})
    EXPECT_TRUE(run.is(i, static_cast<uint8_t>(colour))) << i;
  EXPECT_EQ(run.results[2].problem, "nvJPEG does not support this kind of JPEG");
  EXPECT_NE(run.results[4].problem.find("4 colour components"), std::string::npos);
  EXPECT_EQ(run.results[5].problem, "the JPEG is damaged");
  EXPECT_EQ(world.batches, GetParam() ? 1 : 0);
  EXPECT_EQ(world.singles, GetParam() ? 1 : 4);
}

TEST_P(NvjpegDecoder, OneDamagedPictureCostsTheOthersNothing) {
  Decoding run(*decoder, {file('b', 4, 4, 1), file('d', 4, 4, 2), file('b', 4, 4, 3)});
  world.run_all();
  EXPECT_TRUE(run.is(0, 1));
  EXPECT_EQ(run.results[1].problem, "the JPEG is damaged");
  EXPECT_TRUE(run.is(2, 3));
}

// More pictures than there are buffers, on a device that starts nothing before it must.
TEST_P(NvjpegDecoder, NoBufferIsUsedTooEarly) {
  std::vector<File> files;
  for (uint8_t i = 0; i < 40; ++i) files.push_back(file(i % 3 ? 'p' : 'b', 6, 5, i));
  Decoding first(*decoder, files), second(*decoder, files);
  world.run_all();
  for (uint8_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(first.is(i, i)) << int{i};
    EXPECT_TRUE(second.is(i, i)) << int{i};
  }
}

TEST_P(NvjpegDecoder, RegionsAreOfTheirOwnSize) {
  const std::vector<File> files{file('b', 20, 10, 1), file('p', 20, 10, 2), file('b', 20, 10, 3)};
  Decoding run(*decoder, files, {{3, 2, 5, 4}, {0, 0, 20, 1}, {}});
  Decoding next(*decoder, files,
                {{0, 0, 2, 2}, {}, {19, 9, 1, 1}});  // its parameters must not reach those under way
  world.run_all();
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(run.is(i, static_cast<uint8_t>(i + 1)));
  EXPECT_EQ(run.results[0].width, 5);
  EXPECT_EQ(run.results[0].height, 4);
  EXPECT_EQ(run.results[1].pitch_bytes, 60);
  EXPECT_EQ(run.results[2].height, 10);
  std::vector<device::JpegResult> results;
  const File small = file('b', 4, 4, 1);
  EXPECT_THROW(decoder->plan(std::vector<device::JpegRequest>{{small, {1, 0, 4, 4}}}, results), Error);
}

TEST_P(NvjpegDecoder, WhatIsOverTheCeilingComesBack) {
  decoder = open(1024);
  Decoding run(*decoder, {file('b', 9, 9, 1), file('b', 20, 20, 2), file('b', 9, 9, 3)});
  world.run_all();
  EXPECT_TRUE(run.is(0, 1));
  EXPECT_NE(run.results[1].problem.find("ceiling"), std::string::npos);
  EXPECT_TRUE(run.is(2, 3));
  void* memory = nullptr;
  EXPECT_NE(world.allocator->allocate(world.allocator->context, &memory, 900, nullptr), 0)
      << "beside the results there is no room";
  EXPECT_EQ(world.allocator->allocate(world.allocator->context, &memory, 200, nullptr), 0);
  world.allocator->release(world.allocator->context, memory, 200, nullptr);
}

TEST_P(NvjpegDecoder, AnEmptyCallIsNothing) {
  Decoding run(*decoder, {});
  EXPECT_EQ(world.batches + world.singles, 0);
}

INSTANTIATE_TEST_SUITE_P(Hardware, NvjpegDecoder, ::testing::Bool());

TEST(NvjpegLibrary, AMissingLibrarySaysWhatToInstall) {
  try {
    cuda::NvjpegLibrary::load("/nowhere/libnvjpeg.so.13");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_NE(std::string(error.what()).find("nvidia-nvjpeg"), std::string::npos) << error.what();
  }
}

TEST(GpuDecoder, NoDeviceIsAReason) {
  if (cuda::missing_reason().empty()) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_THROW(device::GpuDecoder::open({}), Error);
}

}  // namespace
}  // namespace millrace::cuda
