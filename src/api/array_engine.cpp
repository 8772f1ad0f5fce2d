#include "api/array_engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/clock.h"
#include "millrace/error.h"

namespace millrace::api {
namespace {

// From here on threads copy: below it, copying takes less time than handing the work over. Rows in mapped
// files always are the threads': each may wait for the disk, and a few of them are a piece, so that threads
// wait at the same time.
constexpr size_t kLargeFieldBytes = size_t{256} << 10;
constexpr size_t kMappedRowsPerPiece = 16;

// Indices from the end become those from the beginning.
void check(std::vector<int64_t>& indices, int64_t size) {
  // Nearly always all are as they should be, which vector registers see.
  bool others = false;
  for (const int64_t index : indices) others |= static_cast<uint64_t>(index) >= static_cast<uint64_t>(size);
  if (!others) return;
  for (int64_t& index : indices) {
    if (index < -size || index >= size)
      throw Error(ErrorKind::out_of_range, "index " + std::to_string(index) +
                                               " is out of range for a dataset of " + std::to_string(size) +
                                               " samples");
    if (index < 0) index += size;
  }
}

}  // namespace

ArrayEngine::ArrayEngine(std::shared_ptr<const ArrayDataset> dataset, const EngineOptions& options)
    : dataset_(std::move(dataset)), memory_(options.memory), has_source_(static_cast<bool>(options.memory)),
      threads_(options.threads),
      engine_(options.threads, options.slots, dataset_->fields().size(), options.memory) {}

void ArrayEngine::start_epoch(uint64_t, uint64_t) {
  engine_.discard_all();
  pending_.clear();
}

bool ArrayEngine::submit(std::vector<int64_t> indices) {
  Pending& batch = pending_.emplace_back();
  batch.indices = std::move(indices);
  try {
    begin(batch);
  } catch (...) {
    batch.error = std::current_exception();
  }
  return true;
}

void ArrayEngine::begin(Pending& batch) {
  const int64_t size = dataset_->size();
  check(batch.indices, size);
  const auto rows = static_cast<int64_t>(batch.indices.size());
  batch.fields.resize(dataset_->fields().size());
  std::vector<collate::RowCopy> copies;
  for (size_t i = 0; i < batch.fields.size(); ++i) {
    const ArrayDataset::Rows& from = dataset_->rows()[i];
    const size_t row_bytes = from.field.row_bytes;
    const size_t bytes = base::checked_mul(row_bytes, static_cast<size_t>(rows), "a batch");
    std::vector<const uint8_t*> addresses(batch.indices.size());
    if (row_bytes > 0) collate::locate_rows(from.field, size, batch.indices, addresses.data());
    const bool mapped = from.mapped && threads_ > 0;
    if (row_bytes > 0 && (mapped || has_source_ || bytes >= kLargeFieldBytes)) {
      batch.large.push_back(i);
      copies.push_back({i, row_bytes, std::move(addresses)});
      copies.back().maker = from.maker ? &*from.maker : nullptr;
      if (mapped)
        copies.back().piece_bytes = std::min(copies.back().piece_bytes, kMappedRowsPerPiece * row_bytes);
      continue;
    }
    const trace::StageTimer timer(&copied_, trace::Stage::collate);
    auto [data, owner] = memory_.allocate(bytes);
    if (from.maker)
      from.maker->make(addresses, static_cast<uint8_t*>(data), false);
    else if (row_bytes > 0)
      collate::gather_rows(addresses, row_bytes, static_cast<uint8_t*>(data));
    const FieldSpec& spec = dataset_->fields()[i];
    std::vector<int64_t> shape{rows};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    batch.fields[i] = {spec.name, spec.dtype, std::move(shape), data, std::move(owner)};
  }
  if (!copies.empty()) engine_.submit(std::move(copies));
}

Engine::Status ArrayEngine::next(Made& out, int timeout_ms) {
  if (pending_.empty()) return Status::end;
  if (pending_.front().error) {
    const std::exception_ptr error = pending_.front().error;
    pending_.pop_front();
    std::rethrow_exception(error);
  }
  std::vector<core::Lease> leases;
  if (!pending_.front().large.empty()) {
    const int64_t start = base::now_ns();
    auto status = collate::GatherEngine::Status::pending;
    try {
      status = engine_.next(leases, timeout_ms);
    } catch (...) {
      pending_.pop_front();  // the batch is gone: no memory for it, or a file that was cut short
      throw;
    }
    wait_ns_ += base::now_ns() - start;
    if (status == collate::GatherEngine::Status::pending) return Status::pending;
    if (status == collate::GatherEngine::Status::end) return Status::end;  // closed
  }
  Pending batch = std::move(pending_.front());
  pending_.pop_front();
  const auto rows = static_cast<int64_t>(batch.indices.size());
  for (size_t i = 0; i < leases.size(); ++i) {
    const FieldSpec& spec = dataset_->fields()[batch.large[i]];
    uint8_t* const data = leases[i].data();
    batch.fields[batch.large[i]] = memory_.dense(spec, rows, data, shared(std::move(leases[i])));
  }
  for (const Field& field : batch.fields) bytes_ += static_cast<int64_t>(field.size_bytes());
  samples_ += rows;
  ++batches_;
  out.indices = std::move(batch.indices);
  out.fields = std::move(batch.fields);
  return Status::ready;
}

LoaderStats ArrayEngine::stats() const {
  LoaderStats stats;
  stats.samples = samples_;
  stats.batches = batches_;
  stats.bytes = bytes_;
  const int64_t copied = copied_.ns(trace::Stage::collate);
  stats.collate_seconds = static_cast<double>(copied + engine_.copy_ns()) * 1e-9;
  stats.wait_seconds = static_cast<double>(copied + wait_ns_) * 1e-9;
  stats.overflow_slots = engine_.overflow_count();
  return stats;
}

}  // namespace millrace::api
