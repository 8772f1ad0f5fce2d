#include "tuning/drift_examiner.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "core/fork_guard.h"

namespace millrace::tuning {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A field's numbers of one batch, out of the tensor's memory.
struct Sampled {
  BatchView first;
  SampledBatch batch;
  int64_t rows = 0;
};

Sampled sampled(const ExamField& field, const SampleLimits& limits, uint64_t turn) {
  Sampled result;
  if (field.views.empty()) return result;
  result.first = field.views[0];
  const bool ragged = result.first.ragged;
  const size_t step =
      ragged ? std::max<size_t>(1, field.views.size() / static_cast<size_t>(limits.most_rows)) : 1;
  const FieldLayout layout = layout_of(result.first);
  for (size_t i = 0; i < field.views.size(); i += step) {
    const BatchView& view = field.views[i];
    if (!(layout_of(view) == layout)) continue;  // of another kind than its neighbours
    sample_rows(view, layout, limits, turn, result.batch);
    if (ragged && !result.batch.rows.empty() && view.sizes.size() > 1)
      result.batch.rows.back().length = static_cast<double>(view.sizes[1]);
  }
  result.rows = ragged ? static_cast<int64_t>(field.views.size()) : result.first.rows();
  return result;
}

void note_sizes(FieldStats& field, const BatchView& view) {
  if (field.row_sizes.size() + 1 != view.sizes.size()) return;
  for (size_t d = 0; d < field.row_sizes.size(); ++d)
    if (field.row_sizes[d] != view.sizes[d + 1]) field.row_sizes[d] = -1;
}

// Samples by all their fields together; none where fields disagree about how many there are, or say too
// little.
std::vector<uint64_t> sample_hashes(const std::vector<Sampled>& fields, const std::vector<ExamField>& named) {
  std::vector<uint64_t> hashes;
  int64_t numbers = 0;
  for (size_t f = 0; f < fields.size(); ++f) {
    const auto& rows = fields[f].batch.rows;
    if (rows.empty() || named[f].is_lengths) continue;
    if (hashes.empty()) hashes.resize(rows.size());
    if (hashes.size() != rows.size()) return {};
    for (size_t i = 0; i < rows.size(); ++i) hashes[i] = mix_hash(hashes[i], rows[i].hash);
    numbers += static_cast<int64_t>(fields[f].batch.values.size() / rows.size());
  }
  return numbers >= 4 ? hashes : std::vector<uint64_t>{};
}

}  // namespace

DriftExaminer::DriftExaminer(const SampleLimits& limits, size_t queue, const DriftStats* reference,
                             const DriftOptions& options)
    : limits_(limits), queue_(std::max<size_t>(queue, 1)), generation_(core::fork_generation()) {
  if (reference) detector_ = std::make_unique<DriftDetector>(*reference, options);
  thread_.start("millrace drift", [this] { run(); });
}

void DriftExaminer::End::operator()(DriftExaminer* examiner) const noexcept {
  if (examiner->generation_ == core::fork_generation()) delete examiner;
}

bool DriftExaminer::submit(ExamJob job, bool wait) {
  if (generation_ != core::fork_generation()) return false;
  std::unique_lock lock(mutex_);
  rethrow();
  if (wait) room_.wait(lock, [this] { return closed_ || jobs_.size() < queue_; });
  if (closed_ || jobs_.size() >= queue_) {
    ++counts_.dropped;
    lock.unlock();  // the job's memory goes back without it
    return false;
  }
  jobs_.push_back(std::move(job));
  work_.notify_one();
  return true;
}

void DriftExaminer::finish() {
  if (generation_ != core::fork_generation()) return;
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return closed_ || (jobs_.empty() && !busy_); });
  rethrow();
}

DriftStats DriftExaminer::statistics() {
  if (generation_ != core::fork_generation()) return {};
  const std::lock_guard lock(stats_mutex_);
  DriftStats copy = stats_;
  copy.settle();
  return copy;
}

std::vector<DriftAlarm> DriftExaminer::take_alarms() {
  if (generation_ != core::fork_generation()) return {};
  const std::lock_guard lock(mutex_);
  return std::exchange(alarms_, {});
}

ExaminerCounts DriftExaminer::counts() {
  if (generation_ != core::fork_generation()) return {};
  const std::lock_guard lock(mutex_);
  return counts_;
}

void DriftExaminer::close() {
  if (generation_ != core::fork_generation()) return;
  std::deque<ExamJob> dropped;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    counts_.dropped += static_cast<int64_t>(jobs_.size());
    dropped.swap(jobs_);
    work_.notify_all();
    room_.notify_all();
  }
  thread_.join();
}

void DriftExaminer::rethrow() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void DriftExaminer::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
    if (closed_) return;
    ExamJob job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      examine(std::move(job));
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    busy_ = false;
    room_.notify_all();
  }
}

void DriftExaminer::examine(ExamJob job) {
  const double begin = cpu_seconds();
  std::vector<Sampled> fields;
  for (const ExamField& field : job.fields)
    fields.push_back(sampled(field, limits_, static_cast<uint64_t>(job.step)));
  job.keeper.reset();
  const std::vector<uint64_t> hashes = sample_hashes(fields, job.fields);

  std::vector<DriftAlarm> alarms;
  std::unique_lock stats_lock(stats_mutex_);
  if (detector_) detector_->begin_batch(job.step);
  ++stats_.batches;
  if (!fields.empty()) stats_.samples += fields[0].rows;
  for (size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].rows == 0) continue;
    const ExamField& named = job.fields[f];
    FieldStats& stats = stats_.fields[named.name];
    const FieldReference* const reference = detector_ ? detector_->reference(named.name) : nullptr;
    if (!stats.begun()) stats.begin(fields[f].first, named.is_lengths, reference);
    if (!stats.takes(fields[f].first) || (reference && reference->series.size() != stats.series.size())) {
      ++stats.other_layouts;
      continue;
    }
    note_sizes(stats, fields[f].first);
    const FieldBatch batch = stats.add(std::move(fields[f].batch), fields[f].rows, reference);
    if (reference && !batch.series.empty()) detector_->add(named.name, batch);
  }
  if (job.new_epoch) stats_.repeats.start_epoch();
  const int64_t comparisons = stats_.repeats.comparisons, recent = stats_.repeats.recent;
  for (const uint64_t hash : hashes) stats_.repeats.add(hash);
  if (detector_) {
    const int64_t compared = stats_.repeats.comparisons - comparisons;
    detector_->add_repeats(compared / static_cast<int64_t>(Repeats::kRecent), stats_.repeats.recent - recent,
                           compared);
    alarms = detector_->end_batch();
  }
  stats_lock.unlock();

  const std::lock_guard lock(mutex_);
  for (DriftAlarm& alarm : alarms) alarms_.push_back(std::move(alarm));
  ++counts_.examined;
  counts_.seconds += cpu_seconds() - begin;
}

}  // namespace millrace::tuning
