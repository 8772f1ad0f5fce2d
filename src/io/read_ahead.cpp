#include "io/read_ahead.h"

#include <algorithm>
#include <utility>

#include "core/fork_guard.h"

namespace millrace {

ReadAhead::ReadAhead(std::shared_ptr<const ByteSource> source) : source_(std::move(source)), generation_(fork_generation()) {
  threads_.start("millrace-read", [this] { run(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  work_.notify_one();
  threads_.join();
}

bool ReadAhead::in_child() const { return generation_ != fork_generation(); }

int64_t ReadAhead::add(int64_t offset, std::span<uint8_t> into) {
  int64_t number;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({offset, into, Stage::waiting, nullptr});
    number = first_ + static_cast<int64_t>(jobs_.size()) - 1;
  }
  work_.notify_one();
  return number;
}

ReadAhead::Job* ReadAhead::take_first() {
  const auto job = std::find_if(jobs_.begin(), jobs_.end(), [](const Job& each) { return each.stage == Stage::waiting; });
  if (job == jobs_.end()) return nullptr;
  job->stage = Stage::taken;
  return &*job;
}

void ReadAhead::read(Job& job, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::exception_ptr error;
  try {
    source_->read_at(job.offset, job.into);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  job.error = std::move(error);
  job.stage = Stage::done;
}

void ReadAhead::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (Job* job = take_first()) {
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
      while (oldest.stage != Stage::done) {
        if (Job* other = take_first()) read(*other, lock);
        else done_.wait(lock);
      }
      error = std::move(oldest.error);
      jobs_.pop_front();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace millrace
