// What tests of DeviceLoader run: a data set that has what a decoder takes and what it does not, and its
// epochs on the CPU and on the fake device.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../device/fake_decoder.h"
#include "../device/forgetful_device.h"
#include "../scratch_folder.h"
#include "loader/device_loader.h"

namespace millrace::loader {

inline const std::vector<TransformSpec> kChain = {RandomResizedCrop{20, 24}, HorizontalFlip{},
                                                  ColorJitter{Range{0.6, 1.4}, Range{0.6, 1.4}},
                                                  RandomGrayscale{0.3}, ToTensor{OutputType::u8}};

// 48 files: what a decoder takes, what is the CPU's from the start (CMYK, another format), and what it finds
// out.
class DeviceLoaderTest : public ::testing::Test {
 protected:
  std::shared_ptr<ImageDataset> dataset(bool damaged = false, std::vector<TransformSpec> chain = kChain);

 private:
  ScratchFolder folder_;
};

// The index lists of an epoch.
std::vector<std::vector<int64_t>> lists(int64_t samples = 48, int64_t size = 5);

// A batch as it is on the host, or what was thrown in its place.
struct Seen {
  std::vector<uint8_t> images;
  std::vector<int64_t> labels;
  std::string error;
  bool operator==(const Seen&) const = default;
};

struct Outcome {
  std::vector<Seen> seen;
  std::vector<std::string> left_out;
};

Outcome on_the_cpu(const std::shared_ptr<ImageDataset>& images, ErrorPolicy policy, bool drop_last = false,
                   int epochs = 1);

struct Setup {
  uint32_t seed = 1;
  bool device_threads = false;
  device::Guard forgotten = device::Guard::none;
  ErrorPolicy policy = ErrorPolicy::raise;
  bool drop_last = false, balances = false;
  int epochs = 1, threads = 3, ahead = 2;
  device::FakeDecoder::Options decoder{};
};

// What lies on the device when a late kernel on the consumer's stream reads it; the batch is dropped as soon
// as that is queued.
struct DeviceOutcome : Outcome {
  int64_t changed_sources = 0;
  std::shared_ptr<device::FakeDecoder::Counts> counts = std::make_shared<device::FakeDecoder::Counts>();
  int64_t left = 0;
};

DeviceOutcome on_the_device(const std::shared_ptr<ImageDataset>& images, Setup setup);

}  // namespace millrace::loader
