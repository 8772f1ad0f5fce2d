// Repeats: how many different samples there are, and how many came before, by 64-bit hashes of their bytes.
//
// Different ones by a HyperLogLog of 4096 registers (Flajolet et al. 2007; standard error 1.6 %), which can
// be merged. Repeats within an epoch by a table of 65,536 hashes, the newest of each place: it forgets, so it
// may count too few, never (but for 1 in 2^48) too many. Repeats among the latest 512, which are what drift
// is judged by: their expected number does not grow with the epoch's length. 580 KiB, of constant size; the
// caller keeps threads apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::tuning {

uint64_t mix_hash(uint64_t a, uint64_t b);  // a 64-bit hash of two

class Repeats {
 public:
  static constexpr size_t kRegisters = 4096, kTable = 65536, kRecent = 512;

  void start_epoch();  // what came before may come again
  // Whether it is among the latest 512 of this epoch.
  bool add(uint64_t hash);
  void merge(const Repeats& other);

  double distinct() const;
  // Sums over samples: those seen before in their epoch; those among the latest, once there are 512;
  // comparisons with these.
  int64_t samples = 0, repeated = 0, recent = 0;
  int64_t comparisons = 0;
  std::array<uint8_t, kRegisters> registers{};

 private:
  std::vector<uint64_t> table_;
  std::vector<uint64_t> ring_;
  size_t next_ = 0;
};

}  // namespace millrace::tuning
