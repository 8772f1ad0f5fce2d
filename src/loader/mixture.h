// Mixture: rows of one batch that are mixed with each other, as their halves arrive.
//
// Row i of the batch is made of row i half done and of row partners[i] half done (transforms/row_mix.h).
// Invariants:
//  - Half-done rows are written once, each by the worker that holds the row, and not changed afterwards.
//  - The thread that brings the second of a row's two halves mixes that row, before it settles the row in its
//    hands. So when all rows of the batch are settled, all are mixed.
//  - The memory of the half-done rows goes when the last row is mixed, or with the batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/slot_memory.h"
#include "transforms/row_mix.h"

namespace millrace::loader {

// partners: of each row, the row that is mixed into it; each row is the partner of one. Empty: nothing is
// mixed.
struct BatchMix {
  transforms::RowMix mix{};
  std::vector<int32_t> partners{};
};

class Mixture {
 public:
  // Throws Error(invalid_argument) when the partners are no permutation of the rows, or the box lies outside
  // of pictures of the mixer's size. `mixer` outlives it.
  Mixture(BatchMix mix, int64_t rows, const transforms::RowMixer& mixer);

  // Where `row` is to be written half done.
  transforms::HalfRow& half(int64_t row);
  // `row` is there, half done. Mixes the rows that this completes into `batch`, which holds all rows.
  void arrived(int64_t row, uint8_t* batch);

 private:
  const BatchMix mix_;
  const transforms::RowMixer& mixer_;
  const size_t row_bytes_;
  std::vector<int32_t> followers_;  // of each row, the row that has it as partner
  std::vector<std::atomic<uint8_t>> halves_;
  std::atomic<int64_t> unmixed_;
  std::once_flag made_;
  core::MemoryBlock memory_;  // of the pixels
  std::vector<transforms::HalfRow> rows_;
};

}  // namespace millrace::loader
