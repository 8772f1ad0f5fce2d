// Backfill: the rule of ErrorPolicy::skip, for one complete batch.
//
// A row that could not be read is a hole. Holes are filled in the order of (batch, row); each takes the last
// position not yet used of everything submitted in this epoch, again and again while that sample cannot be
// read either. So the other rows stay where they are, the epoch ends early, and the last batches shrink or
// vanish. A filler keeps the key it was submitted with. Runs in the consumer, on batches in order: the result
// does not depend on the workers. One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "loader/batch_task.h"
#include "loader/row_worker.h"
#include "ordered/queue.h"

namespace millrace::loader {

class Backfill {
 public:
  // `task` is complete, was taken out of `queue`, and its failures are sorted by row, none past its last row.
  // All outlive this.
  Backfill(BatchTask& task, ordered::Queue& queue, RowWorker& worker)
      : task_(task), queue_(queue), worker_(worker) {}

  // Works until all holes are filled (true) or the deadline has passed (false: call again). Afterwards
  // task.rows() counts the rows that are left, and task.failures lists the samples tried in vain, in order. A
  // batch with an error is left as it is.
  bool fill(int64_t deadline_ns);

 private:
  bool take_last_row(int64_t hole);

  BatchTask& task_;
  ordered::Queue& queue_;
  RowWorker& worker_;
  size_t next_ = 0;  // of task.failures
};

}  // namespace millrace::loader
