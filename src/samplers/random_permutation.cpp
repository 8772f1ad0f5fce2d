// Fisher-Yates with torch's draws; the two branches are those of ATen's randperm on the CPU.
#include "samplers/random_permutation.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "millrace/error.h"

namespace millrace {
namespace {

constexpr int64_t kLarge = std::numeric_limits<uint32_t>::max() / 20;  // torch changes its algorithm here

}  // namespace

RandomPermutation::RandomPermutation(int64_t n, uint64_t seed) : seed_(seed), engine_(static_cast<uint32_t>(seed)) {
  if (n < 0)
    throw Error(ErrorKind::invalid_argument, "a permutation has n = 0 or more elements, not " + std::to_string(n));
  order_.resize(static_cast<size_t>(n));
  if (n < kLarge) {
    std::iota(order_.begin(), order_.end(), int64_t{0});
    return;
  }
  for (uint64_t i = 0; i < order_.size(); ++i) {
    const uint64_t high = engine_(), low = engine_();
    const uint64_t other = (high << 32 | low) % (i + 1);
    order_[i] = order_[other];
    order_[other] = static_cast<int64_t>(i);
  }
  drawn_ = size();
}

void RandomPermutation::draw_until(int64_t end) {
  for (; drawn_ < end; ++drawn_) {
    const int64_t left = size() - drawn_;
    if (left > 1) std::swap(order_[drawn_], order_[drawn_ + static_cast<int64_t>(engine_()) % left]);
  }
}

size_t RandomPermutation::take(std::span<int64_t> out) {
  const int64_t count = std::min(static_cast<int64_t>(out.size()), size() - position_);
  draw_until(position_ + count);
  std::copy_n(order_.begin() + position_, count, out.begin());
  position_ += count;
  return static_cast<size_t>(count);
}

void RandomPermutation::seek(int64_t position) {
  if (position < 0 || position > size())
    throw Error(ErrorKind::out_of_range, "position " + std::to_string(position) + " is outside a permutation of " +
                                             std::to_string(size()) + " elements; it must be 0 to " + std::to_string(size()));
  // A drawn element never changes again, so going back costs nothing.
  draw_until(position);
  position_ = position;
}

}  // namespace millrace
