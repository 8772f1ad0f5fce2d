// FairSchedule: which source has the next turn, so that every prefix has each source's share to within one.
//
// After t turns a source of weight w has had more than w t - 1 and fewer than w t + 1 of them. Its k-th turn
// must lie in the window from floor(k / w) to ceil((k + 1) / w); the earliest deadline first meets all
// windows, because they fill the time exactly (Tijdeman, "The chairman assignment problem", Discrete
// Mathematics 1980; Baruah and others, "Proportionate progress", Algorithmica 1996). Equal deadlines are
// ordered at random, a function of (seed, epoch, source, k): sources of equal weight come in a new order each
// round. Weights are whole numbers, so nothing is ever rounded. About 10 ns per turn of a few sources, more
// with the logarithm of their number; seek() costs at most one period (the weights' sum divided by their
// common divisor). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace millrace::samplers {

class FairSchedule {
 public:
  // Throws Error(invalid_argument) when all weights are 0, or their sum above 2^62.
  FairSchedule(std::vector<uint64_t> weights, uint64_t seed, uint64_t epoch);

  size_t next();            // the source of turn turn()
  void seek(int64_t turn);  // turn >= 0

  int64_t turn() const { return turn_; }
  const std::vector<int64_t>& counts() const { return counts_; }  // turns each source has had

 private:
  struct Window {          // of a source's next turn
    uint64_t release;      // it may come from here on,
    uint64_t whole, part;  // up to whole + part / weight
    uint64_t tie;
    uint64_t deadline() const { return whole + (part > 0); }
  };
  struct Item {
    uint64_t time, tie;
    size_t source;
    bool operator>(const Item& other) const {
      if (time != other.time) return time > other.time;
      return tie != other.tie ? tie > other.tie : source > other.source;
    }
  };
  using Queue = std::priority_queue<Item, std::vector<Item>, std::greater<Item>>;

  void start_period(int64_t period);
  void open_window(size_t source);
  size_t earliest_of_few() const;
  size_t earliest_of_many();

  std::vector<uint64_t> weights_;
  uint64_t sum_ = 0, salt_;
  int64_t turn_ = 0;
  std::vector<int64_t> counts_;
  std::vector<Window> windows_;
  bool many_;
  Queue waiting_, ready_;  // of many: by release; by deadline
};

}  // namespace millrace::samplers
