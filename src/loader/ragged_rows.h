// RaggedRows: the memory of a batch in which each row has its own shape.
//
// Rows lie one after another in the order in which they come, each at a whole cache line: in the batch's
// slot, and, when that is full, in further blocks of the same kind of memory. A row is written where it
// stays; nothing is moved.
// The slot has as many bytes as the largest batch lately has needed (ordered::Slot::wanted), so the first
// batches of a loader have further blocks, later ones seldom.
// Bound: the rows' bytes, and in the last block room for the rows to come, by the mean of those that came: at
// most kMostAhead.
// Threads: any, one at a time: BatchTask's lock guards all calls. Each writes to its own rows without it.
// Ends: hand_over() gives the memory to the consumer; else it goes with the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/batch_ring.h"
#include "loader/data_loader.h"

namespace millrace::loader {

class RaggedRows {
 public:
  static constexpr size_t kMostAhead = size_t{64} << 20;

  explicit RaggedRows(size_t rows) : rows_(rows), room_(rows) {}

  // Where `row` is to be written: `bytes` for parts of these shapes. A row that comes again, because another
  // sample has taken its place, keeps its memory if that is large enough. `slot` is the batch's. Throws
  // Error(system).
  uint8_t* take(size_t row, std::vector<transforms::OutputShape> parts, size_t bytes, core::Lease& slot);

  // Bytes of the slot that a batch like this needs.
  size_t wanted() const { return taken_; }

  // Hands over the first `rows` rows with all memory: the slot's first, then the further blocks. The
  // consumer, once.
  void hand_over(size_t rows, core::Lease slot, Batch& out);

 private:
  size_t block_for(size_t bytes, core::Lease& slot);
  core::Lease& block(size_t number, core::Lease& slot) { return number == 0 ? slot : further_[number - 1]; }

  std::vector<RaggedRow> rows_;
  std::vector<size_t> room_;  // of each row, the bytes that it has; 0: it has not come
  std::vector<core::Lease> further_;
  size_t came_ = 0;   // rows that have memory
  size_t taken_ = 0;  // bytes, in all blocks
  size_t used_ = 0;   // of the last block
};

}  // namespace millrace::loader
