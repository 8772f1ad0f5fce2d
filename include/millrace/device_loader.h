// DeviceLoader: a Loader's batches on a device, copied ahead of the loop on a stream of their own. Needs
// libtorch.
//
//   LoaderOptions options{.batch_size = 128, .threads = 8, .memory = millrace::pinned_memory()};
//   millrace::DeviceLoader batches(millrace::Loader(photos, options), at::Device(at::kCUDA, 0));
//   for (int epoch = 0; epoch < 90; ++epoch)
//     for (const millrace::DeviceBatch& batch : batches) step(batch["image"], batch["label"]);
//
// What next() gives is ready on the calling thread's current stream, as if computed there; the host does not
// wait. On the CPU nothing is copied, so a program is the same with and without an accelerator.
//
// Threads: one at a time in next(), begin() and load_state(), a second one waits; state() and close() from
// any.
// Ends: close() wakes everyone; the destructor also waits for the copies, and until other threads have left
// their calls. A child that was forked since is refused with Error(unavailable).
// Memory on the device: at most `ahead` + 1 batches, and what the program keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <c10/core/Device.h>

#include "millrace/device_ahead.h"
#include "millrace/device_batch.h"
#include "millrace/loader.h"

namespace millrace {

class DeviceLoader {
 public:
  // Takes the Loader. Throws Error(unavailable) for a device that libtorch does not see,
  // Error(invalid_argument) when `ahead`, the number of batches that are copied ahead, is less than 1.
  DeviceLoader(Loader loader, at::Device device, int ahead = 2)
      : ahead_(std::make_unique<DeviceAhead>(std::move(loader), device, ahead)) {}
  DeviceLoader(const DeviceLoader&) = delete;
  DeviceLoader& operator=(const DeviceLoader&) = delete;
  // What a forked child inherited is left alone: another thread may have held its locks.
  ~DeviceLoader() {
    if (loader().forked()) static_cast<void>(ahead_.release());
  }

  at::Device device() const { return ahead_->device(); }
  const Loader& loader() const { return ahead_->loader(); }  // size(), stats()

  // As Loader::next(): false after an epoch's last batch; throws what the Loader threw, in the place of the
  // batch. `out` is empty then.
  bool next(DeviceBatch& out) { return ahead_->next(out); }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = DeviceBatch;
    using difference_type = std::ptrdiff_t;
    using pointer = const DeviceBatch*;
    using reference = const DeviceBatch&;
    Iterator() = default;
    const DeviceBatch& operator*() const { return batch_; }
    const DeviceBatch* operator->() const { return &batch_; }
    Iterator& operator++() {
      if (loader_ && !loader_->ahead_->next(batch_, iteration_)) loader_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return loader_ == other.loader_; }

   private:
    friend class DeviceLoader;
    Iterator(DeviceLoader* loader, uint64_t iteration) : loader_(loader), iteration_(iteration) { ++*this; }
    DeviceLoader* loader_ = nullptr;
    uint64_t iteration_ = 0;
    DeviceBatch batch_;
  };
  // Starts an epoch: one that was broken off is left, unless load_state() came since. Older iterators throw,
  // as Loader's.
  Iterator begin() { return Iterator(this, ahead_->begin()); }
  Iterator end() { return {}; }

  // Loader::state() after the last batch that next() gave, however many were copied ahead.
  std::string state() const { return ahead_->state(); }
  void load_state(const std::string& json) { ahead_->load_state(json); }

  void close() { ahead_->close(); }

 private:
  std::unique_ptr<DeviceAhead> ahead_;
};

}  // namespace millrace
