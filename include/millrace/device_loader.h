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
// A thread takes batches from the Loader and copies them.
// Invariant: `made_` has at most `ahead` of them, the oldest first; the thread alone uses Loader and copier
// while it runs, and ends with the epoch. Memory on the device: at most `ahead` + 1 batches, and what the
// program keeps.
// Threads: one at a time in next(), begin() and load_state(); state() and close() from any.
// Ends: close() wakes everyone; the destructor also waits for the copies.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <c10/core/Device.h>

#include "millrace/device_batch.h"
#include "millrace/error.h"
#include "millrace/loader.h"

namespace millrace {

class DeviceLoader {
 public:
  // Takes the Loader. Throws Error(unavailable) for a device that libtorch does not see,
  // Error(invalid_argument) when `ahead`, the number of batches that are copied ahead, is less than 1.
  DeviceLoader(Loader loader, at::Device device, int ahead = 2)
      : loader_(std::move(loader)), copier_(device), ahead_(static_cast<size_t>(ahead)) {
    if (ahead < 1)
      throw Error(ErrorKind::invalid_argument,
                  "DeviceLoader: ahead is " + std::to_string(ahead) +
                      ", but one batch at least is copied ahead; pass 1 or more");
  }
  DeviceLoader(const DeviceLoader&) = delete;
  DeviceLoader& operator=(const DeviceLoader&) = delete;
  ~DeviceLoader() {
    close();
    stop();
  }

  at::Device device() const { return copier_.device(); }
  const Loader& loader() const { return loader_; }  // size(), stats()

  // As Loader::next(): false behind an epoch's last batch; throws what the Loader threw, in the place of the
  // batch.
  bool next(DeviceBatch& out) {
    out = {};
    if (!thread_.joinable()) start(false);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !made_.empty(); });
    if (closed_) throw Error(ErrorKind::unavailable, "DeviceLoader: close() was called; make another one");
    Made made = std::move(made_.front());
    made_.pop_front();
    if (made.state) state_ = std::move(made.state);
    lock.unlock();
    changed_.notify_all();
    if (made.end) stop();
    if (made.error) std::rethrow_exception(made.error);
    if (!made.end) out = copier_.ready(std::move(made.copied));
    return !made.end;
  }

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
      if (!loader_->next(batch_)) loader_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return loader_ == other.loader_; }

   private:
    friend class DeviceLoader;
    explicit Iterator(DeviceLoader* loader) : loader_(loader) { ++*this; }
    DeviceLoader* loader_ = nullptr;
    DeviceBatch batch_;
  };
  // Starts an epoch: one that was broken off is left, unless load_state() came since.
  Iterator begin() {
    stop();
    start(true);
    return Iterator(this);
  }
  Iterator end() { return {}; }

  // Loader::state() behind the last batch that next() gave, however many were copied ahead.
  std::string state() const {
    const std::lock_guard lock(mutex_);
    return state_ ? *state_ : loader_.state();
  }
  void load_state(const std::string& json) {
    stop();
    loader_.load_state(json);
    const std::lock_guard lock(mutex_);
    state_.reset();
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    loader_.close();
  }

 private:
  struct Made {  // a batch, what was thrown in its place, or the end of the epoch
    DeviceCopier::Copied copied;
    std::optional<std::string> state;
    std::exception_ptr error;
    bool end = false;
  };

  // Behind it the thread is gone, and the Loader the caller's.
  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    made_.clear();
    stopping_ = false;
  }

  void start(bool anew) {
    std::string before = loader_.state();
    {
      const std::lock_guard lock(mutex_);
      state_ = std::move(before);
    }
    try {
      thread_ = std::thread([this, anew] { copy_epoch(anew); });
    } catch (const std::system_error& error) {
      throw Error(ErrorKind::system,
                  std::string("DeviceLoader: cannot start the thread that copies batches: ") + error.what(),
                  {}, -1, error.code().value());
    }
  }

  // False: nobody wants more.
  bool give(Made made) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || closed_ || made_.size() < ahead_; });
    if (stopping_ || closed_) return false;
    made_.push_back(std::move(made));
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  // What the thread does. A batch that cannot be made has its error in its place.
  void copy_epoch(bool anew) {
    for (bool more = true; more;) {
      Made made;
      try {
        Batch batch;
        if (std::exchange(anew, false)) {
          const Loader::Iterator first = loader_.begin();
          made.end = first == loader_.end();
          if (!made.end) batch = *first;
        } else {
          made.end = !loader_.next(batch);
        }
        made.state = loader_.state();
        if (!made.end) made.copied = copier_.copy(std::move(batch));
      } catch (...) {
        made.error = std::current_exception();
      }
      more = !made.end;
      more = give(std::move(made)) && more;
    }
    try {
      copier_.wait();
    } catch (...) {  // of the device: the next copy has it again
    }
  }

  Loader loader_;
  DeviceCopier copier_;
  const size_t ahead_;
  std::thread thread_;  // of the calling thread; all below: of mutex_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Made> made_;
  std::optional<std::string> state_;
  bool stopping_ = false, closed_ = false;
};

}  // namespace millrace
