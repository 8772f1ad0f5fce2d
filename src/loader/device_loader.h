// DeviceLoader: batches of an ImageDataset in order, in a device's memory, their JPEGs decoded and augmented
// there as far as it can.
//
//   submit() -> Engine: threads read, draw, and make a row or leave its file -> device thread -> queue of
//   batches -> next()
//
// The engine is that of the CPU's loader (engine.h), with its order, draws and error policies. Its workers
// write finished rows into a page-locked slot, or leave pictures aside (decode_share.h). The device thread is
// the engine's only consumer. For each batch it queues on one stream: the decoding of the pictures left
// aside; then, when all rows are settled, the copies of finished rows and the fused augmentation of decoded
// ones into the batch; then the ticket. Pictures that the decoder cannot decode go back to the engine, which
// decodes them on the CPU: errors are those of the CPU.
//
// Invariant, when memory may be used again:
//  1. the batch in the device's memory is written on the copier's stream and read on the consumer's stream.
//     The consumer's stream waits for the ticket, and the memory is named as used on that stream before it
//     can be freed;
//  2. decoded pictures and workspaces live on the copier's stream only, so they are freed as soon as their
//     work is queued;
//  3. the copier keeps slots and files until the work that was queued after them is done, no matter what
//     became of their batch;
//  4. a ticket comes back to the device thread, under the lock, before its event is recorded again.
// Bound: on the host slots, and `decoded_bytes` of files that wait for the device; on the device `ahead`
// batches, the two on the stream, and `decoded_bytes`.
// Threads: start_epoch, submit, skip, end_epoch and next from one at a time; stats() and close() from any.
// Ends: close() or the destructor follow core/consumer_seat.h: they mark and wake; a next() on another thread
// comes out with Error(unavailable), or with the batch that it was handing out; the device thread stops after
// the batch in its hands; then they join it, close the engine, wait for the device and drop the batches that
// nobody took. In a forked child every call is refused with Error(unavailable), and the destructor does
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/batch_copier.h"
#include "device/batch_images.h"
#include "device/fused_augment.h"
#include "device/gpu_decoder.h"
#include "loader/data_loader.h"

namespace millrace::loader {

// What works on a stream of the device; `stream` is Device::native_stream().
struct DeviceDecoding {
  std::unique_ptr<device::GpuDecoder> decoder;
  // fused_augment() there.
  std::function<void(std::span<const device::DecodedPicture>, std::span<const device::Augmentation>,
                     std::span<const double> mean, std::span<const double> std,
                     const device::BatchImages& out, void* workspace, void* stream)>
      augment;
};

struct DeviceLoaderOptions {
  LoaderOptions loader;  // threads: at least one is started
  bool balances =
      false;      // decoding is shared between device and threads; else what the device can do is left to it
  int ahead = 2;  // batches that are done before they are asked for
  size_t decoded_bytes =
      size_t{1}
      << 30;  // of pictures that wait for the device or are decoded there; and as much of their files
};

struct DeviceBatch {
  struct View {
    transforms::OutputShape shape;  // of one row
    device::DeviceBlock images;     // rows x shape elements, dense
  };
  int64_t id = 0, rows = 0;
  base::DType type = base::DType::f32;
  std::vector<View> views;     // of a picture: one, or several
  device::DeviceBlock labels;  // rows of i64
  std::vector<RowKey> keys;    // as Batch has them
};

class DeviceLoader {
 public:
  using Status = DataLoader::Status;

  // Throws Error(invalid_argument) for views of which why_not_fused() names a reason for one, or that do not
  // fit together.
  DeviceLoader(std::shared_ptr<const ImageDataset> dataset, const DeviceLoaderOptions& options,
               std::shared_ptr<device::Device> device, DeviceDecoding decoding);
  ~DeviceLoader();
  DeviceLoader(const DeviceLoader&) = delete;
  DeviceLoader& operator=(const DeviceLoader&) = delete;

  // As DataLoader's.
  void start_epoch(uint64_t seed, uint64_t epoch);
  void submit(std::vector<int64_t> indices);
  void skip(std::span<const int64_t> indices);
  void end_epoch();
  // The batch may be used on the device's current stream of the calling thread at once.
  Status next(DeviceBatch& out, int timeout_ms);
  void close();
  LoaderStats stats() const;
  LoaderSnapshot snapshot() const;                  // of the engine; its consumer is the device thread
  std::vector<trace::StageReading> clocks() const;  // the device thread's is the last
  int64_t left_to_device() const;                   // pictures so far

 private:
  class Impl;
  Impl& impl() const;
  bool in_child() const;

  const uint64_t generation_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::loader
