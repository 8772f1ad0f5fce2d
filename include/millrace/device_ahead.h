// DeviceAhead: the thread of a DeviceLoader (the class that programs use), and the batches that it made.
//
// The thread takes batches from the Loader and copies them.
// Invariant: `made_` has at most `ahead` of them, the oldest first; the thread alone uses Loader and copier
// while it runs, and ends with the epoch.
// Locks, in this order:
//  - seat_: held by the thread in next(), begin() or load_state(); others wait.
//  - mutex_: held for moments; it guards what the thread and any other share.
// Ends: close() wakes everyone. The destructor closes, and waits until all calls are over, each of which is a
// Visit, and for the copies. In a forked child every call is refused before a lock is touched; there nobody
// may call the destructor.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
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

class DeviceAhead {
 public:
  DeviceAhead(Loader loader, at::Device device, int ahead)
      : loader_(std::move(loader)), copier_(device), ahead_(static_cast<size_t>(ahead)) {
    if (ahead < 1)
      throw Error(ErrorKind::invalid_argument,
                  "DeviceLoader: ahead is " + std::to_string(ahead) +
                      ", but one batch at least is copied ahead; pass 1 or more");
  }
  DeviceAhead(const DeviceAhead&) = delete;
  DeviceAhead& operator=(const DeviceAhead&) = delete;
  ~DeviceAhead() {
    close();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return visits_ == 0; });
    }
    stop();
  }

  at::Device device() const { return copier_.device(); }
  const Loader& loader() const { return loader_; }

  // `iteration`: of the iterator that asks; 0: none does.
  bool next(DeviceBatch& out, uint64_t iteration = 0) {
    out = {};
    const Visit visit(*this);
    const std::lock_guard seat(seat_);
    if (iteration != 0 && iteration != iteration_) {
      if (iteration == ended_iteration_) return false;
      throw Error(ErrorKind::invalid_argument,
                  "this iterator's epoch was left: begin() or load_state() was called on the same "
                  "DeviceLoader since, by a loop inside of this one, say; give the inner loop a DeviceLoader "
                  "of its own");
    }
    if (!thread_.joinable()) start(false);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !made_.empty(); });
    if (closed_) throw Error(ErrorKind::unavailable, "DeviceLoader: close() was called; make another one");
    Made made = std::move(made_.front());
    made_.pop_front();
    if (made.state) state_ = std::move(made.state);
    lock.unlock();
    changed_.notify_all();
    if (made.end) {
      stop();
      ended_iteration_ = iteration_++;
    }
    if (made.error) std::rethrow_exception(made.error);
    if (!made.end) out = copier_.ready(std::move(made.copied));
    return !made.end;
  }

  uint64_t begin() {  // the number of the iteration that begins
    const Visit visit(*this);
    const std::lock_guard seat(seat_);
    stop();
    start(true);
    return ++iteration_;
  }

  std::string state() const {
    const Visit visit(*this);
    const std::lock_guard lock(mutex_);
    return state_ ? *state_ : loader_.state();
  }

  void load_state(const std::string& json) {
    const Visit visit(*this);
    const std::lock_guard seat(seat_);
    stop();
    loader_.load_state(json);
    ++iteration_;
    const std::lock_guard lock(mutex_);
    state_.reset();
  }

  void close() {
    if (loader_.forked()) return;
    const Visit visit(*this);
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

  // A call, for which the destructor waits.
  class Visit {
   public:
    explicit Visit(const DeviceAhead& of) : of_(of) {
      if (of.loader_.forked()) static_cast<void>(of.loader_.epoch());  // throws
      const std::lock_guard lock(of.mutex_);
      ++of.visits_;
    }
    ~Visit() {
      const std::lock_guard lock(of_.mutex_);
      --of_.visits_;
      of_.changed_.notify_all();
    }

   private:
    const DeviceAhead& of_;
  };

  // After it the thread is gone, and the Loader the caller's.
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
                  std::string("DeviceLoader: the thread that copies could not be started: ") + error.what(),
                  "", -1, error.code().value());
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
  std::mutex seat_;                               // held by the thread that uses:
  uint64_t iteration_ = 1, ended_iteration_ = 0;  // that next() is in; the last one that came to its end
  std::thread thread_;

  mutable std::mutex mutex_;  // guards everything below
  mutable std::condition_variable changed_;
  std::deque<Made> made_;
  std::optional<std::string> state_;
  mutable int visits_ = 0;
  bool stopping_ = false, closed_ = false;
};

}  // namespace millrace
