#include "samplers/shuffle_order.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "millrace/error.h"

namespace millrace::samplers {

ShuffleOrder::ShuffleOrder(int64_t n, int64_t size, uint64_t seed, uint64_t epoch)
    : n_(n), capacity_(std::min(n, size)), draws_(seed, epoch, DrawsFor::buffer) {
  if (n < 0)
    throw Error(ErrorKind::invalid_argument, "a stream has 0 or more samples, not " + std::to_string(n));
  if (size < 1)
    throw Error(ErrorKind::invalid_argument,
                "a shuffle buffer holds at least 1 sample, but size is " + std::to_string(size));
  places_.resize(static_cast<size_t>(capacity_));
  std::iota(places_.begin(), places_.end(), int64_t{0});
}

int64_t ShuffleOrder::next() {
  const auto place =
      static_cast<size_t>(scaled(draws_.at(static_cast<uint64_t>(step_)).first, places_.size()));
  const int64_t drawn = places_[place];
  if (step_ + capacity_ < n_) {
    places_[place] = step_ + capacity_;
  } else {
    places_[place] = places_.back();
    places_.pop_back();
  }
  ++step_;
  return drawn;
}

void ShuffleOrder::seek(int64_t step) {
  if (step < step_ || step - step_ > 16 * capacity_) {
    // While the stream has more, a place holds what came in when it was last drawn.
    const int64_t full = std::min(step, n_ - capacity_);
    places_.assign(static_cast<size_t>(capacity_), -1);
    int64_t missing = capacity_;
    for (int64_t s = full - 1; s >= 0 && missing > 0; --s) {
      int64_t& place =
          places_[scaled(draws_.at(static_cast<uint64_t>(s)).first, static_cast<uint64_t>(capacity_))];
      if (place >= 0) continue;
      place = s + capacity_;
      --missing;
    }
    for (int64_t j = 0; j < capacity_; ++j)
      if (places_[static_cast<size_t>(j)] < 0) places_[static_cast<size_t>(j)] = j;
    step_ = full;
  }
  while (step_ < step) next();
}

void ShuffleOrder::at(std::span<const int64_t> positions, std::span<int64_t> out) {
  for (const int64_t position : positions)
    if (position < 0 || position >= n_)
      throw Error(ErrorKind::out_of_range, "a stream of " + std::to_string(n_) + " samples has no position " +
                                               std::to_string(position));
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] != step_) seek(positions[i]);
    out[i] = next();
  }
}

std::vector<int64_t> ShuffleOrder::held(int64_t step) {
  if (step < 0 || step > n_)
    throw Error(ErrorKind::out_of_range,
                "a stream of " + std::to_string(n_) + " samples has no step " + std::to_string(step));
  seek(step);
  return places_;
}

}  // namespace millrace::samplers
