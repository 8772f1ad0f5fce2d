#include "samplers/fair_schedule.h"

#include <numeric>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "samplers/counter_draws.h"

namespace millrace::samplers {
namespace {

constexpr uint64_t kNever = ~uint64_t{0};
constexpr size_t kFew = 48;  // sources that are looked through faster than kept in order

}  // namespace

FairSchedule::FairSchedule(std::vector<uint64_t> weights, uint64_t seed, uint64_t epoch)
    : weights_(std::move(weights)), salt_(CounterDraws(seed, epoch, DrawsFor::ties).at(0).first),
      many_(weights_.size() > kFew) {
  uint64_t divisor = 0;
  for (const uint64_t weight : weights_) divisor = std::gcd(divisor, weight);
  if (divisor == 0) throw Error(ErrorKind::invalid_argument, "at least one weight must be above 0");
  for (uint64_t& weight : weights_) {
    weight /= divisor;
    if (weight > (uint64_t{1} << 62) - sum_)
      throw Error(ErrorKind::invalid_argument,
                  "the weights' sum must be at most 2^62 after division by their common divisor");
    sum_ += weight;
  }
  start_period(0);
}

// At the end of a period every source has had exactly its share, and all begins again.
void FairSchedule::start_period(int64_t period) {
  turn_ = period * static_cast<int64_t>(sum_);
  counts_.clear();
  windows_.clear();
  waiting_ = {};
  ready_ = {};
  for (size_t i = 0; i < weights_.size(); ++i) {
    counts_.push_back(period * static_cast<int64_t>(weights_[i]));
    windows_.push_back({kNever, static_cast<uint64_t>(turn_), 0, 0});
    if (weights_[i] > 0) open_window(i);
  }
}

// The next turn may come from where the last one's window ended, rounded down, on.
void FairSchedule::open_window(size_t source) {
  Window& window = windows_[source];
  const uint64_t weight = weights_[source];
  window.release = window.whole;
  window.whole += sum_ / weight;
  window.part += sum_ % weight;
  if (window.part >= weight) {
    window.part -= weight;
    ++window.whole;
  }
  window.tie = mix64(salt_ ^ mix64(static_cast<uint64_t>(counts_[source]) + (uint64_t{source} << 44)));
  if (many_) waiting_.push({window.release, 0, source});
}

// Without branches: ties are random, so a processor would guess wrong every other time.
size_t FairSchedule::earliest_of_few() const {
  __extension__ using u128 = unsigned __int128;
  size_t best = 0;
  u128 best_key = ~u128{0};
  for (size_t i = 0; i < windows_.size(); ++i) {
    const Window& window = windows_[i];
    const uint64_t closed = 0 - static_cast<uint64_t>(window.release > static_cast<uint64_t>(turn_));
    const u128 key = static_cast<u128>(window.deadline() | closed) << 64 | window.tie;
    const bool earlier = key < best_key;
    best = earlier ? i : best;
    best_key = earlier ? key : best_key;
  }
  return best;
}

size_t FairSchedule::earliest_of_many() {
  while (!waiting_.empty() && waiting_.top().time <= static_cast<uint64_t>(turn_)) {
    const size_t source = waiting_.top().source;
    waiting_.pop();
    ready_.push({windows_[source].deadline(), windows_[source].tie, source});
  }
  const size_t source = ready_.top().source;
  ready_.pop();
  return source;
}

size_t FairSchedule::next() {
  const size_t source = many_ ? earliest_of_many() : earliest_of_few();
  ++counts_[source];
  ++turn_;
  open_window(source);
  return source;
}

void FairSchedule::seek(int64_t turn) {
  if (turn < turn_ || turn - turn_ > static_cast<int64_t>(sum_))
    start_period(turn / static_cast<int64_t>(sum_));
  while (turn_ < turn) next();
}

}  // namespace millrace::samplers
