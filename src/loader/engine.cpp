#include "loader/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"

namespace millrace::loader {
namespace {

constexpr double kSecondsPerNs = 1e-9;

}  // namespace

Engine::Engine(RowSource source, const LoaderOptions& options)
    : source_(std::move(source)), options_(options),
      queue_(ordered::Queue::create(1, options.slots, options.memory)), keys_(source_.size),
      consumer_(source_, options.on_error, /*whole=*/true) {
  const auto is_free = [](const auto& shape) { return !shape; };
  const bool any_free =
      source_.forms.empty() ? !source_.fixed_shape : std::ranges::any_of(source_.forms, is_free);
  if (options.on_error == ErrorPolicy::leave && any_free && !source_.ragged)
    throw Error(ErrorKind::invalid_argument,
                "rows can be left out of batches only where all rows have one shape; end with a crop or a "
                "resize to a fixed size");
  for (int i = 0; i < options_.threads; ++i) {
    workers_.push_back(std::make_unique<RowWorker>(source_, options_.on_error));
    clocks_.push_back(std::make_shared<trace::StageClock>());
  }
  try {
    for (int i = 0; i < options_.threads; ++i)
      threads_.start("millrace-" + std::to_string(i), [this, i] { run(i); });
  } catch (...) {
    close();
    throw;
  }
}

Engine::~Engine() { close(); }

void Engine::close() {
  seat_.close();
  queue_->close();
  if (on_own_thread() || seat_.holds_current())
    return;  // the destructor, on another thread or after that call, does the rest
  const auto sitting = seat_.last();
  threads_.join();
  filler_.reset();
  current_.reset();
  claim_ = {};
  phase_ = Phase::closed;
}

void Engine::start_epoch(uint64_t seed, uint64_t epoch) {
  const auto sitting = seat_.sit();
  queue_->discard_all();
  filler_.reset();
  current_.reset();
  claim_ = {};
  failure_ = {};
  keys_.restart();
  epoch_ = std::shared_ptr<Epoch>(new Epoch{seed, epoch});
  next_id_ = 0;
  phase_ = Phase::open;
}

void Engine::submit(std::vector<int64_t> indices, BatchMix mix, size_t form) {
  seat_.throw_if_closed();
  if (phase_ != Phase::open)
    throw Error(ErrorKind::invalid_argument,
                "submit() belongs between start_epoch() and end_epoch() of a loader that is not closed");
  if (indices.empty()) throw Error(ErrorKind::invalid_argument, "a batch needs at least one index");
  if (const size_t forms = std::max<size_t>(1, source_.forms.size()); form >= forms)
    throw Error(ErrorKind::invalid_argument,
                "form " + std::to_string(form) + " of a batch: its rows have " + std::to_string(forms));
  std::unique_ptr<Mixture> mixture;
  if (!mix.partners.empty()) {
    if (!source_.mixer || options_.on_error != ErrorPolicy::raise)
      throw Error(
          ErrorKind::invalid_argument,
          "rows are mixed only where they are one view of three channels in float32, of one size, and "
          "no sample is left out");
    mixture = std::make_unique<Mixture>(std::move(mix), std::ssize(indices), *source_.mixer);
  }
  const auto task = std::make_shared<BatchTask>(next_id_, epoch_, keys_.resolve(indices), shape_of(form),
                                                source_.type, form, source_.ragged);
  task->mixture = std::move(mixture);
  queue_->push(task);
  ++next_id_;
}

void Engine::skip(std::span<const int64_t> indices) {
  if (phase_ != Phase::open || next_id_ > 0)
    throw Error(ErrorKind::invalid_argument, "skip() belongs between start_epoch() and the first submit()");
  keys_.resolve(indices);
}

void Engine::end_epoch() {
  Phase open = Phase::open;
  phase_.compare_exchange_strong(open, Phase::ended);
}

void Engine::run(int number) {
  RowWorker& worker = *workers_[static_cast<size_t>(number)];
  const trace::StageLife life(clocks_[static_cast<size_t>(number)], trace::Stage::collate);
  ordered::Claim claim;
  RowFailure failure;
  while (queue_->next(claim, number)) {
    BatchTask& task = task_of(claim);
    while (!worker.step(task, claim.unit, failure) && !task.abandoned.load(std::memory_order_relaxed)) {
    }
    task.take(failure);
  }
}

bool Engine::find_oldest(int64_t deadline_ns) {
  if (current_) return true;
  if (workers_.empty() && (claim_.batch || queue_->next_of_oldest(claim_))) {
    const trace::StageScope scope(trace::Stage::collate);
    do {
      if (!consumer_.step(task_of(claim_), claim_.unit, failure_)) continue;
      task_of(claim_).take(failure_);
      if (!queue_->next_of_oldest(claim_)) break;
    } while (base::now_ns() < deadline_ns);
  }
  current_ = std::static_pointer_cast<BatchTask>(queue_->pop(deadline_ns));
  if (!current_) return false;
  auto& failures = current_->failures;
  std::sort(failures.begin(), failures.end(),
            [](const RowFailure& a, const RowFailure& b) { return a.row < b.row; });
  while (!failures.empty() && failures.back().row >= current_->rows())
    failures.pop_back();  // `skip` took those rows off
  if (source_.complete) finish_asides();
  if (options_.on_error == ErrorPolicy::skip) filler_.emplace(*current_, *queue_, consumer_);
  return true;
}

// Has the rows made that were left aside, and makes those that come back, by the policy as if a worker had
// met them.
void Engine::finish_asides() {
  BatchTask& task = *current_;
  std::vector<int64_t> rows;
  try {
    rows = source_.complete(task);
  } catch (...) {
    task.error = std::current_exception();
  }
  for (const int64_t row : rows) {
    const auto at = std::lower_bound(task.failures.begin(), task.failures.end(), row,
                                     [](const RowFailure& failure, int64_t r) { return failure.row < r; });
    const bool known = at != task.failures.end() && at->row == row;
    RowFailure failure = known ? std::move(*at) : RowFailure{};
    while (!consumer_.step(task, row, failure)) {
    }
    if (known)
      *at = std::move(failure);
    else if (failure.any())
      task.failures.insert(at, std::move(failure));
  }
}

// Brings current_ into the form in which it is handed out. False: the deadline has passed before.
bool Engine::settle(int64_t deadline_ns) {
  if (filler_ && !filler_->fill(deadline_ns)) return false;
  filler_.reset();
  if (options_.on_error == ErrorPolicy::leave) list_skipped();
  record_failures();
  return true;
}

void Engine::list_skipped() {
  skipped_.clear();
  const bool ragged = current_->ragged.has_value();
  if (!ragged) current_->row_shapes.resize(current_->keys.size(), *current_->shape);
  for (const RowFailure& failure : current_->failures) {
    if (failure.error || failure.left_out.empty()) continue;
    skipped_.push_back({failure.row, failure.left_out.back()});
    if (!ragged) current_->row_shapes[static_cast<size_t>(failure.row)] = *current_->shape;
  }
}

void Engine::record_failures() {
  const std::lock_guard lock(stats_mutex_);
  for (RowFailure& failure : current_->failures) {
    for (SampleError& error : failure.left_out) {
      if (counted_.errors.size() < kMostErrors) counted_.errors.push_back(error);
      last_error_ = std::move(error);
      ++counted_.left_out;
    }
    failure.left_out.clear();
  }
}

DataLoader::Status Engine::next(Batch& out, int timeout_ms) {
  if (options_.on_error == ErrorPolicy::skip && phase_ == Phase::open && next_id_ > 0)
    throw Error(ErrorKind::invalid_argument,
                "on_error='skip' fills holes from the epoch's end: submit all batches and call end_epoch() "
                "before next()");
  if (seat_.closed()) return DataLoader::Status::end;
  const trace::TraceRange range("wait for batch");
  const auto sitting = seat_.sit();
  const int64_t start = base::now_ns(), deadline = start + int64_t{timeout_ms} * 1'000'000;
  const bool found = find_oldest(deadline) && settle(deadline);
  {
    const std::lock_guard lock(stats_mutex_);
    counted_.wait_seconds += static_cast<double>(base::now_ns() - start) * kSecondsPerNs;
  }
  seat_.throw_if_closed();  // the queue was emptied under this batch: it may lack its fillers
  if (!found) return current_ || !queue_->empty() ? DataLoader::Status::pending : DataLoader::Status::end;

  const std::shared_ptr<BatchTask> task = std::move(current_);
  if (const auto error = task->first_error()) std::rethrow_exception(error);
  if (task->rows() == 0 && task->id == 0) {
    throw Error(ErrorKind::corrupt_data,
                "none of this epoch's samples can be read; the last one: " + last_error_.reason,
                last_error_.path, last_error_.offset);
  }
  const bool incomplete =
      task->rows() < task->submitted_rows;  // then it was the last one: only `skip` shortens, from the end
  if (task->rows() == 0 || (incomplete && options_.drop_last)) return DataLoader::Status::end;
  if (!task->ragged) remake_if_shape_changed(*task);
  hand_over(*task, out);
  return DataLoader::Status::ready;
}

// A failed row may have decided the batch's shape before another sample took its place: then all rows were
// made for nothing.
void Engine::remake_if_shape_changed(BatchTask& task) {
  const transforms::OutputShape shape = task.row_shapes.front();
  if (*task.shape == shape) return;
  task.lease().resize(task.batch_bytes(shape));
  task.shape = shape;
  for (int64_t row = 0; row < task.rows(); ++row) consumer_.make(task, row);
}

void Engine::hand_over(BatchTask& task, Batch& out) {
  const trace::StageTimer timer(&consumer_.times(), trace::Stage::collate);
  const size_t bytes = task.ragged ? hand_over_ragged(task, out) : hand_over_rows(task, out);
  out.id = task.id;
  out.rows = task.rows();
  out.type = task.type;
  out.labels.clear();
  out.skipped = std::exchange(skipped_, {});
  for (int64_t row = 0; row < task.rows(); ++row)
    out.labels.push_back(
        source_.labels.empty()
            ? 0
            : source_.labels[static_cast<size_t>(task.keys[static_cast<size_t>(row)].index)]);
  task.keys.resize(static_cast<size_t>(task.rows()));
  out.keys = std::move(task.keys);
  const std::lock_guard lock(stats_mutex_);
  ++counted_.batches;
  counted_.samples += task.rows();
  counted_.bytes += static_cast<int64_t>(bytes + out.labels.size() * sizeof(int64_t));
}

// Both return how many bytes the rows have.
size_t Engine::hand_over_rows(BatchTask& task, Batch& out) {
  const size_t bytes = task.batch_bytes(*task.shape) / static_cast<size_t>(task.submitted_rows) *
                       static_cast<size_t>(task.rows());
  out.shape = *task.shape;
  out.ragged.clear();
  out.parts = source_.parts;
  out.block_rows = task.submitted_rows;
  if (!out.parts.empty()) {
    out.images = std::move(task.lease());
  } else if (bytes < core::kSmallFieldBytes) {
    out.images = core::Lease::copy_of(task.lease().data(), bytes);
  } else {
    task.lease().resize(bytes);
    out.images = std::move(task.lease());
  }
  return bytes;
}

size_t Engine::hand_over_ragged(BatchTask& task, Batch& out) {
  task.ragged->hand_over(static_cast<size_t>(task.rows()), std::move(task.lease()), out);
  size_t elements = 0;
  for (const RaggedRow& row : out.ragged)
    for (const transforms::OutputShape& part : row.parts) elements += static_cast<size_t>(part.elements());
  return elements * base::dtype_bytes(task.type);
}

std::vector<trace::StageReading> Engine::clocks() const {
  std::vector<trace::StageReading> result;
  for (const auto& clock : clocks_) result.push_back(clock->read());
  return result;
}

LoaderStats Engine::stats() const {
  LoaderStats result;
  {
    const std::lock_guard lock(stats_mutex_);
    result = counted_;
  }
  result.slots = queue_->slots();
  result.overflow_slots = queue_->overflow_count();
  const auto add = [&result](const trace::StageTimes& times) {
    result.read_seconds += static_cast<double>(times.ns(trace::Stage::read)) * kSecondsPerNs;
    result.decode_seconds += static_cast<double>(times.ns(trace::Stage::decode)) * kSecondsPerNs;
    result.transform_seconds += static_cast<double>(times.ns(trace::Stage::transform)) * kSecondsPerNs;
    result.collate_seconds += static_cast<double>(times.ns(trace::Stage::collate)) * kSecondsPerNs;
  };
  add(consumer_.times());
  for (const auto& worker : workers_) add(worker->times());
  return result;
}

LoaderSnapshot Engine::snapshot() const {
  LoaderSnapshot result{queue_->snapshot(), {}};
  const int64_t now = base::now_ns();
  const auto add = [&](const RowWorker& worker) {
    const trace::Activity::Moment doing = worker.doing();
    const bool works = doing.doing != trace::Doing::nothing;
    const auto seconds = [&](int64_t since) {
      return works ? static_cast<double>(now - since) * kSecondsPerNs : 0.0;
    };
    result.threads.push_back({doing.doing, doing.index, seconds(doing.since_ns), seconds(doing.sample_ns)});
  };
  for (const auto& worker : workers_) add(*worker);
  add(consumer_);
  return result;
}

}  // namespace millrace::loader
