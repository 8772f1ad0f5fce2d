// RowWorker: makes claimed rows with a RowMaker, and follows the error policy as far as one row can.
//
// step() makes one attempt, so that a caller with a deadline can stop in between: under `replace` a row may
// need many. One thread at a time. A RowWorker keeps its maker's buffers, hence one per thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "loader/batch_task.h"
#include "loader/row_source.h"
#include "trace/activity.h"
#include "trace/stage_times.h"

namespace millrace::loader {

class RowWorker {
 public:
  // `source` outlives it. With `whole`, it leaves no row aside.
  RowWorker(const RowSource& source, ErrorPolicy policy, bool whole = false)
      : source_(source), policy_(policy), whole_(whole && source.make_whole_maker) {}

  // One attempt at `row` of `task` with its present key. True: the row is settled, made or given up. False:
  // `replace` has put the next index in its place. What went wrong is added to `failure`.
  bool step(BatchTask& task, int64_t row, RowFailure& failure);

  // The same without any policy: throws what goes wrong.
  void make(BatchTask& task, int64_t row);

  trace::StageTimes& times() { return times_; }
  const trace::StageTimes& times() const { return times_; }
  trace::Activity::Moment doing() const { return activity_.now(); }  // from any thread

 private:
  bool replace(BatchTask& task, int64_t row, RowFailure& failure);

  const RowSource& source_;
  const ErrorPolicy policy_;
  const bool whole_;
  trace::StageTimes times_;
  trace::Activity activity_;
  std::unique_ptr<RowMaker> maker_;  // made on first use, in the thread that uses it
  std::vector<uint8_t> elsewhere_;
};

}  // namespace millrace::loader
