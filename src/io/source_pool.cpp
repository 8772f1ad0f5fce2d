#include "io/source_pool.h"

#include <utility>

#include "core/fork_guard.h"
#include "millrace/error.h"

namespace millrace::io {

class SourcePool::Pooled final : public ByteSource {
 public:
  Pooled(std::shared_ptr<SourcePool> pool, std::string name, int64_t size, Open open)
      : pool_(std::move(pool)), name_(std::move(name)), size_(size), open_(std::move(open)) {}
  ~Pooled() override {
    if (core::fork_generation() != pool_->generation_) {
      // In a forked child. The lock may have been copied while it was held; open sources are the parent's.
      [[maybe_unused]] const auto* const left = new std::shared_ptr<const ByteSource>(std::move(current_));
      return;
    }
    const std::lock_guard lock(pool_->mutex_);
    if (current_) pool_->open_.erase(place_);
  }
  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  void read_at(int64_t offset, std::span<uint8_t> into) const override {
    if (core::fork_generation() != pool_->generation_)
      throw Error(ErrorKind::unavailable,
                  name_ + " was opened before this process was forked; open it in the process that reads it",
                  name_);
    pool_->opened(*this)->read_at(offset, into);
  }

 private:
  friend class SourcePool;
  const std::shared_ptr<SourcePool> pool_;
  const std::string name_;
  const int64_t size_;
  const Open open_;
  mutable std::mutex opening_;
  // The pool's mutex_:
  mutable std::shared_ptr<const ByteSource> current_;
  mutable std::list<const Pooled*>::iterator place_;  // in the pool's list, while current_ is there
};

SourcePool::SourcePool(size_t max_open) : max_open_(max_open), generation_(core::fork_generation()) {
  if (max_open < 1)
    throw Error(ErrorKind::invalid_argument, "max_open=0 should be 1 or more: what is read has to be open");
}

std::shared_ptr<const ByteSource> SourcePool::add(std::string name, int64_t size, Open open) {
  return std::make_shared<Pooled>(shared_from_this(), std::move(name), size, std::move(open));
}

size_t SourcePool::open_now() const {
  const std::lock_guard lock(mutex_);
  return open_.size();
}

std::shared_ptr<const ByteSource> SourcePool::opened(const Pooled& source) {
  const auto current = [&] {
    const std::lock_guard lock(mutex_);
    if (source.current_) open_.splice(open_.begin(), open_, source.place_);
    return source.current_;
  };
  if (auto there = current()) return there;
  const std::lock_guard opening(source.opening_);
  if (auto there = current()) return there;
  auto fresh = source.open_();
  std::shared_ptr<const ByteSource> gone;  // closed without the lock
  {
    const std::lock_guard lock(mutex_);
    if (open_.size() >= max_open_) {
      gone = std::move(open_.back()->current_);
      open_.back()->current_.reset();
      open_.pop_back();
    }
    open_.push_front(&source);
    source.place_ = open_.begin();
    source.current_ = fresh;
  }
  return fresh;
}

}  // namespace millrace::io
