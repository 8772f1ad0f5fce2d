#include "samplers/segments.h"

#include <algorithm>
#include <limits>
#include <string>

#include "millrace/error.h"
#include "samplers/keyed_permutation.h"

namespace millrace::samplers {
namespace {

constexpr int64_t kMost = int64_t{1} << 62;

std::vector<int64_t> starts_of(std::span<const int64_t> lengths) {
  std::vector<int64_t> starts{0};
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > kMost - starts.back())
      throw Error(ErrorKind::invalid_argument,
                  "lengths are 0 or more, and at most 2^62 together, but length " + std::to_string(i) +
                      " is " + std::to_string(lengths[i]));
    starts.push_back(starts.back() + lengths[i]);
  }
  return starts;
}

// Calls use(i, run, first, end) for each position, which lies in run first .. end-1. One that is not in the
// run of the position before is looked for where it would be if all runs were as long, which most are, and
// then by bisection.
template <class Use>
void find_runs(const std::vector<int64_t>& ends, std::span<const int64_t> positions, const Use& use) {
  const int64_t size = ends.empty() ? 0 : ends.back();
  const double runs_per_position =
      size > 0 ? static_cast<double>(ends.size()) / static_cast<double>(size) : 0;
  size_t run = 0;
  int64_t first = 1, end = 0;  // of `run`; none yet
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t position = positions[i];
    if (position < 0 || position >= size)
      throw Error(ErrorKind::out_of_range, "an order of " + std::to_string(size) +
                                               " samples has no position " + std::to_string(position));
    if (position < first || position >= end) {
      run = std::min(static_cast<size_t>(static_cast<double>(position) * runs_per_position), ends.size() - 1);
      if (position >= ends[run] || (run > 0 && position < ends[run - 1]))
        run = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), position) - ends.begin());
      first = run == 0 ? 0 : ends[run - 1];
      end = ends[run];
    }
    use(i, run, first, end);
  }
}

}  // namespace

ShardOrder::ShardOrder(std::span<const int64_t> lengths, uint64_t seed, uint64_t epoch) {
  const std::vector<int64_t> starts = starts_of(lengths);
  const KeyedPermutation order(static_cast<int64_t>(lengths.size()), seed, epoch);
  int64_t end = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto shard = static_cast<size_t>(order.at(static_cast<int64_t>(i)));
    shifts_.push_back(starts[shard] - end);
    ends_.push_back(end += lengths[shard]);
  }
}

void ShardOrder::at(std::span<const int64_t> positions, std::span<int64_t> out) const {
  find_runs(ends_, positions,
            [&](size_t i, size_t run, int64_t, int64_t) { out[i] = positions[i] + shifts_[run]; });
}

SegmentShuffle::SegmentShuffle(std::span<const int64_t> lengths, uint64_t seed, uint64_t epoch)
    : seed_(seed), epoch_(epoch) {
  ends_ = starts_of(lengths);
  ends_.erase(ends_.begin());
}

void SegmentShuffle::at(std::span<const int64_t> positions, std::span<int64_t> out) const {
  size_t begin = 0, run = std::numeric_limits<size_t>::max();  // of the part of `out` with offsets in its run
  int64_t first = 0, length = 0;
  const auto look_up = [&](size_t end) {
    const auto offsets = out.subspan(begin, end - begin);
    KeyedPermutation(length, seed_, epoch_, run + 1).at(offsets, offsets);  // many at once cost half
    for (int64_t& element : offsets) element += first;
    begin = end;
  };
  find_runs(ends_, positions, [&](size_t i, size_t next, int64_t next_first, int64_t next_end) {
    if (next != run) {
      look_up(i);
      run = next;
      first = next_first;
      length = next_end - next_first;
    }
    out[i] = positions[i] - first;
  });
  look_up(positions.size());
}

}  // namespace millrace::samplers
