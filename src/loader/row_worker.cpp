#include "loader/row_worker.h"

#include <cerrno>
#include <string>

namespace millrace::loader {
namespace {

// Carries an error past the handlers that would blame the sample for it.
struct NotTheSample {
  std::exception_ptr error;
};

// Whether an error that a maker threw speaks of one sample (another can take its place) or of the machine or
// the caller.
bool is_sample_fault(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::not_found:
    case ErrorKind::corrupt_data:
    case ErrorKind::unavailable: return true;
    case ErrorKind::system: return error.code() != EMFILE && error.code() != ENFILE && error.code() != ENOMEM;
    case ErrorKind::invalid_argument:
    case ErrorKind::out_of_range:
    case ErrorKind::shape_mismatch: return false;
  }
  return false;
}

}  // namespace

void RowWorker::make(BatchTask& task, int64_t row) {
  const RowKey& key = task.keys[static_cast<size_t>(row)];
  if (key.index < 0 || key.index >= source_.size)
    throw Error(ErrorKind::out_of_range, "index " + std::to_string(key.index) +
                                             " is out of range for a dataset of " +
                                             std::to_string(source_.size) + " samples");
  trace::ActiveSample active(activity_, key.index);
  if (!maker_) maker_ = whole_ ? source_.make_whole_maker(&times_) : source_.make_maker(&times_);
  const transforms::OutputShape shape =
      maker_->prepare({task.epoch->seed, task.epoch->number, key.index, key.occurrence}, task.form);
  RowMemory memory;
  try {
    memory =
        task.ragged ? task.place_ragged(row, shape, maker_->parts()) : task.place(row, shape, elsewhere_);
  } catch (...) {
    throw NotTheSample{std::current_exception()};
  }
  active.makes();
  if (task.mixture) {
    maker_->finish_half(task.mixture->half(row));
    const trace::StageTimer timer(&times_, trace::Stage::collate);
    task.mixture->arrived(row, memory.batch);
    return;
  }
  maker_->finish(memory);
  task.asides[static_cast<size_t>(row)] = maker_->take_aside();
}

bool RowWorker::step(BatchTask& task, int64_t row, RowFailure& failure) {
  failure.row = row;
  try {
    make(task, row);
    return true;
  } catch (const Error& error) {
    if (policy_ == ErrorPolicy::raise || !is_sample_fault(error)) {
      failure.error = std::current_exception();
      return true;
    }
    failure.left_out.push_back(
        {task.keys[static_cast<size_t>(row)].index, error.path(), error.offset(), error.what()});
  } catch (const NotTheSample& carried) {
    failure.error = carried.error;
    return true;
  } catch (...) {
    failure.error = std::current_exception();
    return true;
  }
  return policy_ == ErrorPolicy::skip || policy_ == ErrorPolicy::leave || replace(task, row, failure);
}

bool RowWorker::replace(BatchTask& task, int64_t row, RowFailure& failure) {
  const bool all_tried = static_cast<int64_t>(failure.left_out.size()) == source_.size;
  std::atomic<bool>& none_readable = task.epoch->none_readable;
  if (all_tried || none_readable.load(std::memory_order_relaxed)) {
    none_readable.store(true, std::memory_order_relaxed);
    const SampleError first = std::move(failure.left_out.front());
    failure.left_out.clear();
    failure.error =
        std::make_exception_ptr(Error(ErrorKind::corrupt_data,
                                      "none of the " + std::to_string(source_.size) +
                                          " samples can be read, so nothing can take the place of index " +
                                          std::to_string(first.index) + ": " + first.reason,
                                      first.path, first.offset));
    return true;
  }
  RowKey& key = task.keys[static_cast<size_t>(row)];
  key = {(key.index + 1) % source_.size, 0};
  return false;
}

}  // namespace millrace::loader
