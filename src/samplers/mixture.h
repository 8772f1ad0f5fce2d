// Mixture: samples of several sources in exact proportions, each source gone through in a new permutation at
// each of its passes.
//
// Sources are numbered as in their concatenation. A position's source comes from FairSchedule; the source's
// k-th draw is element k % length of its permutation number k / length. A mixture may start in the middle,
// after `start` draws of which each source has had `counts`; this is how weights change on the way. About 40
// ns per element forwards; backwards and skipping as FairSchedule.
// Memory: about 400 bytes per source.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "samplers/fair_schedule.h"
#include "samplers/keyed_permutation.h"

namespace millrace::samplers {

class Mixture {
 public:
  // counts: empty, or one per source, all 0 or more. Throws Error(invalid_argument) for vectors of different
  // lengths, negative lengths, or a source of weight above 0 without samples.
  Mixture(std::span<const int64_t> lengths, std::vector<uint64_t> weights, uint64_t seed, uint64_t epoch,
          bool shuffle, int64_t start = 0, std::vector<int64_t> counts = {});

  // out[i] = the sample at positions[i]; cheap for rising positions. Throws Error(out_of_range) for one
  // before `start`.
  void at(std::span<const int64_t> positions, std::span<int64_t> out);
  std::vector<int64_t> counts_at(int64_t position);  // draws that each source has had before it

 private:
  struct Source {
    int64_t first = 0, length = 0, before = 0;  // its first sample; how many; draws before `start`
    int64_t next_draw = -1, pass = 0,
            offset = 0;       // the draw after the last one, as number, and where it lies
    int64_t order_pass = -1;  // that `order` is for
    std::optional<KeyedPermutation> order;
    std::vector<int64_t> offsets;  // that were drawn from `order` and not looked up: many at once cost half
    std::vector<size_t> slots;     // where in `out` they belong
  };
  void draw(Source& source, size_t number, size_t slot, std::span<int64_t> out) const;
  void finish(Source& source, std::span<int64_t> out) const;
  void seek(int64_t position);

  std::vector<Source> sources_;
  uint64_t seed_, epoch_;
  bool shuffle_;
  int64_t start_;
  FairSchedule schedule_;
};

}  // namespace millrace::samplers
