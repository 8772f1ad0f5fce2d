// DriftExaminer: a thread that looks at batches while the training loop goes on.
//
// Invariant: `mutex_` guards the queue, the alarms and the counts, and is held for moments; `stats_mutex_`
// the statistics. The thread takes a job out under the first, samples its numbers under none (they are the
// job's alone), adds them under the second, and says what it found under the first again; it never holds
// both. So submit() waits for no examination. A job holds what it reads (`keeper`): it is released, on this
// thread, as soon as its numbers are sampled. At most `queue` jobs wait; submit() says no rather than wait,
// or waits if told to.
// Threads: any thread, every call but the destructor. End: close(), which the destructor calls, marks and
// wakes: the thread ends after its job, a submit() that waits says no, finish() returns; then close() drops
// all waiting jobs and joins.
// In a forked child nothing is done, and End leaks what was made before the fork: a condition variable that a
// thread of the parent waits for cannot be destroyed there. An error of a job is kept, and thrown by
// the next submit() or finish().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/thread_group.h"
#include "tuning/drift_detector.h"
#include "tuning/field_stats.h"

namespace millrace::tuning {

struct ExamField {
  std::string name;
  std::vector<BatchView> views;  // one; of a ragged field, one per sample
  bool is_lengths = false;
};

struct ExamJob {
  int64_t step = 0;
  bool new_epoch = false;
  std::vector<ExamField> fields;
  std::shared_ptr<void> keeper;
};

struct ExaminerCounts {
  int64_t examined = 0, dropped = 0;
  double seconds = 0;  // of CPU
};

class DriftExaminer {
 public:
  // Without `reference` nothing is compared.
  DriftExaminer(const SampleLimits& limits, size_t queue, const DriftStats* reference,
                const DriftOptions& options);
  ~DriftExaminer() { close(); }
  DriftExaminer(const DriftExaminer&) = delete;
  DriftExaminer& operator=(const DriftExaminer&) = delete;

  struct End {  // of an owner that may be forked
    void operator()(DriftExaminer* examiner) const noexcept;
  };

  bool submit(ExamJob job, bool wait);
  void finish();            // waits until all that was submitted has been looked at
  DriftStats statistics();  // a copy, settled
  std::vector<DriftAlarm> take_alarms();
  ExaminerCounts counts();
  void close();

 private:
  void run();
  void examine(ExamJob job);
  void rethrow();  // with mutex_ held

  const SampleLimits limits_;
  const size_t queue_;
  const uint64_t generation_;
  std::unique_ptr<DriftDetector> detector_;  // the thread's alone

  std::mutex mutex_;
  std::condition_variable work_, room_;
  std::deque<ExamJob> jobs_;
  bool busy_ = false, closed_ = false;
  std::vector<DriftAlarm> alarms_;
  ExaminerCounts counts_;
  std::exception_ptr failure_;

  std::mutex stats_mutex_;
  DriftStats stats_;

  core::ThreadGroup thread_;
};

}  // namespace millrace::tuning
