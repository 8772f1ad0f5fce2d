#include "loader/backfill.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"

namespace millrace::loader {

bool Backfill::fill(int64_t deadline_ns) {
  const auto ends_batch = [](const RowFailure& failure) { return failure.error != nullptr; };
  if (task_.error || std::any_of(task_.failures.begin(), task_.failures.end(), ends_batch)) return true;
  while (next_ < task_.failures.size() && task_.failures[next_].row < task_.rows()) {
    RowFailure& hole = task_.failures[next_];
    if (!take_last_row(hole.row)) {
      task_.units = hole.row;
      ++next_;
      break;
    }
    RowFailure attempt;
    worker_.step(task_, hole.row, attempt);
    const bool filled = attempt.left_out.empty();
    std::move(attempt.left_out.begin(), attempt.left_out.end(), std::back_inserter(hole.left_out));
    hole.error = attempt.error;
    if (filled) ++next_;
    if (hole.error) break;
    if (base::now_ns() >= deadline_ns) return false;
  }
  // The later failures are of rows that were taken as fillers; each of these failures is listed at the hole
  // that tried the row.
  task_.failures.resize(next_);
  return true;
}

// Moves the key of the last position not yet used into the hole; false: the hole itself is the last.
bool Backfill::take_last_row(int64_t hole) {
  ordered::Claim last = queue_.take_last();
  BatchTask& from = last.batch ? task_of(last) : task_;
  if (!last.batch) {
    if (task_.rows() - 1 <= hole) return false;
    last.unit = --task_.units;
  }
  task_.keys[static_cast<size_t>(hole)] = from.keys[static_cast<size_t>(last.unit)];
  return true;
}

}  // namespace millrace::loader
