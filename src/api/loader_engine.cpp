#include "api/loader_engine.h"

#include <utility>

namespace millrace::api {

void LoaderEngine::start_epoch(uint64_t seed, uint64_t epoch) {
  loader_->start_epoch(seed, epoch);
  if (restart_) restart_();
}

bool LoaderEngine::submit(std::vector<int64_t> indices) {
  loader_->submit(std::move(indices));
  return true;
}

Engine::Status LoaderEngine::next(Made& out, int timeout_ms) {
  const auto status = loader_->next(batch_, timeout_ms);
  if (status == loader::DataLoader::Status::pending) return Status::pending;
  if (status == loader::DataLoader::Status::end) return Status::end;
  out.indices.clear();
  for (const loader::RowKey& key : batch_.keys) out.indices.push_back(key.index);
  out.fields = fields_(batch_);
  batch_ = {};
  return Status::ready;
}

LoaderStats LoaderEngine::stats() const {
  const loader::LoaderStats from = loader_->stats();
  LoaderStats to;
  to.samples = from.samples;
  to.batches = from.batches;
  to.bytes = from.bytes;
  to.read_seconds = from.read_seconds;
  to.decode_seconds = from.decode_seconds;
  to.transform_seconds = from.transform_seconds;
  to.collate_seconds = from.collate_seconds;
  to.wait_seconds = from.wait_seconds;
  to.overflow_slots = from.overflow_slots;
  to.left_out = from.left_out;
  for (const loader::SampleError& error : from.errors)
    to.errors.push_back({error.index, error.path, error.offset, error.reason});
  return to;
}

loader::LoaderOptions loader_options(const EngineOptions& options) {
  loader::LoaderOptions to;
  to.threads = options.threads;
  to.slots = options.slots;
  to.on_error = options.on_error == OnError::skip      ? loader::ErrorPolicy::skip
                : options.on_error == OnError::replace ? loader::ErrorPolicy::replace
                                                       : loader::ErrorPolicy::raise;
  to.drop_last = options.drop_last;
  to.memory = options.memory;
  return to;
}

}  // namespace millrace::api
