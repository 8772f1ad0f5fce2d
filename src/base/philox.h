// Philox: the counter-based generator for every random decision of a native stage.
//
// Philox4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), with
// the published constants. The stream is a pure function of (SampleKey, op): no state outlives it, so any
// thread may draw for any sample. One block (four 32-bit words) costs about 20 ns.
#pragma once

#include <array>
#include <cstdint>

#include "base/sample_key.h"

namespace millrace::base {

class Philox {
 public:
  // `op` is the position of the operation in the transform chain.
  Philox(const SampleKey& key, uint32_t op);

  uint32_t next_u32();
  double uniform();                            // [0, 1), 53 random bits
  double uniform(double low, double high);     // [low, high)
  int64_t integer(int64_t low, int64_t high);  // low <= x < high, without bias (Lemire 2019); high > low

  // The `number`-th four words of the stream, whatever was taken from it.
  std::array<uint32_t, 4> words(uint32_t number) const {
    return block({counter_[0], counter_[1], counter_[2], number}, key_);
  }

  // The bare function, for tests against the published vectors.
  static std::array<uint32_t, 4> block(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
};

}  // namespace millrace::base
