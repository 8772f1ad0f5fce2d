// Fisher-Yates with torch's draws; the two branches are those of ATen's randperm on the CPU.
#include "samplers/random_permutation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string>

#include "millrace/error.h"

namespace millrace::samplers {
namespace {

constexpr int64_t kLarge = std::numeric_limits<uint32_t>::max() / 20;  // torch changes its algorithm here
constexpr int64_t kAhead =
    32;  // swaps with partners fetched together: in a big permutation each is a cache miss

bool narrow(int64_t n) { return n <= int64_t{std::numeric_limits<uint32_t>::max()}; }

}  // namespace

RandomPermutation::RandomPermutation(int64_t n, uint64_t seed)
    : RandomPermutation(n, MersenneTwister(static_cast<uint32_t>(seed))) {}

RandomPermutation::RandomPermutation(int64_t n, const MersenneTwister& engine)
    : size_(n), start_(engine), engine_(engine) {
  if (n < 0)
    throw Error(ErrorKind::invalid_argument,
                "a permutation has n = 0 or more elements, not " + std::to_string(n));
}

int64_t RandomPermutation::words(int64_t n) { return n >= kLarge ? 2 * n : std::max<int64_t>(n - 1, 0); }

void RandomPermutation::start_round() {
  drawn_ = 0;
  places_.reset();  // first, so that two are never held
  if (size_ == 0) return;
  places_.reset(std::calloc(static_cast<size_t>(size_), narrow(size_) ? sizeof(uint32_t) : sizeof(uint64_t)));
  if (!places_) throw std::bad_alloc();
}

template <class Place>
void RandomPermutation::draw_until(int64_t end) {
  auto* places = static_cast<Place*>(places_.get());
  if (size_ >= kLarge) return draw_all<Place>();
  std::array<uint32_t, kAhead> words;
  std::array<int64_t, kAhead> partners;
  while (drawn_ < end) {
    const int64_t count = std::min(kAhead, end - drawn_);
    // The last element is drawn for by nobody.
    const int64_t draws = std::min(count, size_ - 1 - drawn_);
    engine_.fill(std::span(words).first(static_cast<size_t>(draws)));
    if (draws < count) words[draws] = 0;
    for (int64_t j = 0; j < count; ++j) {
      partners[j] = drawn_ + j + words[j] % static_cast<uint32_t>(size_ - drawn_ - j);
      __builtin_prefetch(&places[partners[j]], 1);
    }
    for (int64_t j = 0; j < count; ++j) {
      const int64_t i = drawn_ + j, other = partners[j];
      const auto here = static_cast<Place>(places[i] ^ static_cast<Place>(i));
      places[i] = static_cast<Place>(places[other] ^ static_cast<Place>(other) ^ static_cast<Place>(i));
      places[other] = static_cast<Place>(here ^ static_cast<Place>(other));
    }
    drawn_ += count;
  }
}

template <class Place>
void RandomPermutation::draw_all() {
  if (drawn_ == size_) return;
  auto* places = static_cast<Place*>(places_.get());
  for (int64_t i = 0; i < size_; ++i) {
    const uint64_t high = engine_(), low = engine_();
    const auto other = static_cast<int64_t>((high << 32 | low) % (static_cast<uint64_t>(i) + 1));
    places[i] = static_cast<Place>(places[other] ^ static_cast<Place>(other) ^ static_cast<Place>(i));
    places[other] = static_cast<Place>(static_cast<Place>(i) ^ static_cast<Place>(other));
  }
  drawn_ = size_;
}

template <class Place>
void RandomPermutation::go_to_round(int64_t round) {
  if (places_ && round == round_) return;
  if (places_ && round > round_) {
    if (size_ >= kLarge) {
      draw_all<Place>();
    } else {
      engine_.discard(static_cast<uint64_t>(std::max<int64_t>(size_ - 1 - drawn_, 0)));
    }
    ++round_;
  } else {
    engine_ = start_;
    round_ = 0;
  }
  const auto draws = static_cast<uint64_t>(words(size_));
  for (; round_ < round; ++round_) engine_.discard(draws);
  start_round();
}

template <class Place>
void RandomPermutation::look_up(std::span<const int64_t> positions, std::span<int64_t> out) {
  for (size_t begin = 0; begin < positions.size();) {
    const int64_t round = positions[begin] / size_, first = round * size_;
    go_to_round<Place>(round);
    size_t end = begin;
    int64_t highest = 0;
    for (; end < positions.size() && positions[end] >= first && positions[end] - first < size_; ++end)
      highest = std::max(highest, positions[end] - first);
    draw_until<Place>(highest + 1);
    const auto* places = static_cast<const Place*>(places_.get());
    for (; begin < end; ++begin) {
      const int64_t place = positions[begin] - first;
      out[begin] = static_cast<int64_t>(places[place] ^ static_cast<Place>(place));
    }
  }
}

template <class Place>
void RandomPermutation::read_on(int64_t first, std::span<int64_t> out) {
  while (!out.empty()) {
    go_to_round<Place>(first / size_);
    const int64_t begin = first % size_;
    const int64_t count = std::min(std::ssize(out), size_ - begin);
    draw_until<Place>(begin + count);
    const auto* places = static_cast<const Place*>(places_.get()) + begin;
    for (int64_t i = 0; i < count; ++i)
      out[static_cast<size_t>(i)] = static_cast<int64_t>(places[i] ^ static_cast<Place>(begin + i));
    first += count;
    out = out.subspan(static_cast<size_t>(count));
  }
}

void RandomPermutation::check(int64_t position) const {
  if (position < 0 || size_ == 0)
    throw Error(ErrorKind::out_of_range, "a permutation of " + std::to_string(size_) +
                                             " elements has no position " + std::to_string(position));
}

void RandomPermutation::at(std::span<const int64_t> positions, std::span<int64_t> out) {
  for (const int64_t position : positions) check(position);
  narrow(size_) ? look_up<uint32_t>(positions, out) : look_up<uint64_t>(positions, out);
}

void RandomPermutation::read(int64_t first, std::span<int64_t> out) {
  if (out.empty()) return;
  check(first);
  narrow(size_) ? read_on<uint32_t>(first, out) : read_on<uint64_t>(first, out);
}

}  // namespace millrace::samplers
