// DeviceBatches: what the device thread of a DeviceLoader queues for one batch after the other.
// device_loader.h has the order of things and the rules of memory.
//
//   decode(): pictures that were left aside -> device memory      finish(): those, and the rows of the slot
//   -> the batch
//
// One thread, but for copier().hand_out().
// Ends: close() or the destructor wait for the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/batch_copier.h"
#include "loader/batch_task.h"
#include "loader/data_loader.h"
#include "loader/decode_share.h"
#include "loader/device_loader.h"
#include "transforms/image_pipeline.h"

namespace millrace::loader {

class DeviceBatches {
 public:
  using Views = std::vector<std::shared_ptr<const transforms::ImagePipeline>>;

  DeviceBatches(const Views& views, std::shared_ptr<device::Device> device, DeviceDecoding decoding,
                std::shared_ptr<DecodeShare> share);

  // Queues the decoding of the task's asides; returns the rows with pictures that the decoder cannot decode.
  std::vector<int64_t> decode(BatchTask& task);
  // Queues the rest of the batch that was decoded last, and waits for the one before it.
  device::BatchCopier::Ticket finish(Batch batch, DeviceBatch& out);
  // The batch that was decoded last will not be finished, or is.
  void forget() { decoded_ = {}; }

  bool under_way() const { return on_stream_.has_value(); }
  void land() noexcept;  // waits for the batch that was finished last, and books what it took
  void close();
  device::BatchCopier& copier() { return copier_; }

 private:
  // A batch's pictures, by row; without pixels: the row is in the slot.
  struct Decoded {
    std::shared_ptr<device::DeviceMemory> memory;
    std::vector<device::DecodedPicture> pictures;
    std::vector<std::vector<device::Augmentation>> augmentations;  // of each view, by row
    device::BatchCopier::Ticket ticket;                            // after the decoding
    int64_t count = 0, start_ns = 0;
  };
  struct OnStream {
    device::BatchCopier::Ticket decoded, ticket;
    int64_t pictures, rows, start_ns, rest_start_ns;
  };

  bool is_decoded(int64_t row) const {
    return static_cast<size_t>(row) < decoded_.pictures.size() &&
           decoded_.pictures[static_cast<size_t>(row)].pixels != nullptr;
  }
  // `rows`: a whole batch of what lies in the slot from `from` on, as dense.
  void fill(size_t view, const core::Lease& slot, size_t from, const device::BatchImages& rows);
  void augment(size_t view, int64_t first, int64_t end, const device::BatchImages& batch);

  const std::shared_ptr<device::Device> device_;
  const std::shared_ptr<DecodeShare> share_;
  struct Normalization {
    std::vector<double> mean, std;  // of three channels, or none
  };
  std::vector<Normalization> normalizations_;  // of each view
  device::BatchCopier copier_;
  DeviceDecoding
      decoding_;  // its decoder ends, and with it what it enqueued, before the copier lets go of files
  Decoded decoded_;
  std::optional<OnStream> on_stream_;
  int64_t last_end_ns_ = 0;
};

}  // namespace millrace::loader
