// Loader: the handle over Loader::Impl.
#include "millrace/loader.h"

#include <utility>

#include "api/loader_impl.h"
#include "millrace/error.h"

namespace millrace {
namespace {

template <class T>
T& there(const std::unique_ptr<T>& impl) {
  if (!impl)
    throw Error(ErrorKind::unavailable, "this Loader was moved from; use the one that it was moved to");
  return *impl;
}

}  // namespace

Loader::Loader(Dataset dataset, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options))) {}
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&& other) noexcept {
  if (this != &other) {
    Loader ended(std::move(*this));
    impl_ = std::move(other.impl_);
  }
  return *this;
}
// What a forked child inherited is left alone: another thread may have held its locks.
Loader::~Loader() {
  if (forked()) static_cast<void>(impl_.release());
}
bool Loader::forked() const noexcept { return impl_ && !impl_->is_of_this_process(); }

int64_t Loader::size() const { return there(impl_).size(); }
bool Loader::next(Batch& out) {
  out = {};
  return there(impl_).next(out);
}
bool Loader::next_of(uint64_t iteration, Batch& out) {
  out = {};  // its slot is free before the next one is asked for
  return there(impl_).next(out, iteration);
}
Loader::Iterator Loader::begin() {
  const uint64_t iteration = there(impl_).begin();
  return Iterator(this, iteration);
}
int64_t Loader::epoch() const { return there(impl_).epoch(); }
std::string Loader::state() const { return there(impl_).state(); }
void Loader::load_state(const std::string& json) { there(impl_).load_state(json); }
void Loader::close() { there(impl_).close(); }
LoaderStats Loader::stats() const { return there(impl_).stats(); }
void Loader::set_limits(int threads, int batches) { there(impl_).set_limits(threads, batches); }

}  // namespace millrace
