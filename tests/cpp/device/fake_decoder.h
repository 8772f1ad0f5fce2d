// FakeDecoder: a GpuDecoder for the fake device. Pictures come late, on its streams, by our own JPEG decoder,
// from the files as they are at that time: a file that is gone by then gives wrong pixels and is counted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/gpu_decoder.h"
#include "fake_device.h"
#include "loader/device_loader.h"

namespace millrace::device {

class FakeDecoder final : public GpuDecoder {
 public:
  struct Options {
    std::function<bool(std::span<const uint8_t>)> refuses;  // files that come back with a problem
    bool refuses_late = false;                              // by decode(), not by plan()
    std::chrono::microseconds per_picture{
        0};  // time on the stream; more than 0: nothing is decoded and augmented
  };
  struct Counts {
    std::atomic<int64_t> decoded{0}, refused{0}, changed_files{0};
  };

  FakeDecoder(std::shared_ptr<FakeDevice> device, Options options, std::shared_ptr<Counts> counts);
  ~FakeDecoder() override;

  bool has_hardware() const override { return false; }
  size_t plan(std::span<const JpegRequest> requests, std::vector<JpegResult>& results) override;
  void decode(std::span<const JpegRequest> requests, std::vector<JpegResult>& results, void* memory,
              void* stream) override;
  void wait() override { device_->finish(); }

 private:
  const std::shared_ptr<FakeDevice> device_;
  const Options options_;
  const std::shared_ptr<Counts> counts_;
};

// With the CPU's reference of fused_augment(), late on a stream of the fake device.
loader::DeviceDecoding fake_decoding(const std::shared_ptr<FakeDevice>& device, FakeDecoder::Options options,
                                     std::shared_ptr<FakeDecoder::Counts> counts);

}  // namespace millrace::device
