#include "io/read_ahead.h"

#include <algorithm>
#include <utility>

#include "core/fork_guard.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

constexpr size_t kPiece = 256 << 10;  // of a job; a last piece has up to twice as many bytes

}  // namespace

ReadAhead::ReadAhead() : generation_(core::fork_generation()) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  work_.notify_one();
  threads_.join();
}

bool ReadAhead::in_child() const { return generation_ != core::fork_generation(); }

int64_t ReadAhead::add(const ByteSource& source, int64_t offset, std::span<uint8_t> into) {
  int64_t number;
  {
    const std::lock_guard lock(mutex_);
    if (!jobs_.empty() && jobs_.back().source != &source)
      throw Error(ErrorKind::invalid_argument,
                  source.name() +
                      " would be read ahead by a thread that is at work for another shard; "
                      "give each reader that is used at the same time its own");
    if (!started_) threads_.start("millrace-read", [this] { run(); });
    started_ = true;
    do {
      const auto piece = into.first(into.size() < 2 * kPiece ? into.size() : kPiece);
      jobs_.push_back({&source, offset, piece, false, nullptr});
      offset += static_cast<int64_t>(piece.size());
      into = into.subspan(piece.size());
    } while (!into.empty());
    number = first_ + static_cast<int64_t>(jobs_.size()) - 1;
  }
  work_.notify_one();
  return number;
}

void ReadAhead::drop(const ByteSource& source) {
  std::unique_lock lock(mutex_);
  if (jobs_.empty() || jobs_.back().source != &source) return;
  first_ += static_cast<int64_t>(jobs_.size());
  jobs_.resize(taken_);
  done_.wait(lock, [this] { return std::ranges::all_of(jobs_, &Job::done); });
  jobs_.clear();
  taken_ = 0;
}

ReadAhead::Job* ReadAhead::take() { return taken_ < jobs_.size() ? &jobs_[taken_++] : nullptr; }

void ReadAhead::read(Job& job, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::exception_ptr error;
  try {
    job.source->read_at(job.offset, job.into);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  job.error = std::move(error);
  job.done = true;
}

void ReadAhead::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (Job* job = take()) {
      read(*job, lock);
      done_.notify_one();
    } else {
      work_.wait(lock);
    }
  }
}

void ReadAhead::finish(int64_t job) {
  std::exception_ptr error;
  {
    std::unique_lock lock(mutex_);
    for (; first_ <= job && !error; ++first_) {
      Job& oldest = jobs_.front();
      while (!oldest.done) {
        if (Job* other = take())
          read(*other, lock);
        else
          done_.wait(lock);
      }
      error = std::move(oldest.error);
      jobs_.pop_front();
      --taken_;
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace millrace::io
