// stream_shards(): tar shards from front to back, as an Engine.
//
//   ShardStream ──▶ submit(): tickets of sources::StreamSamples ──▶ loader::DataLoader ──▶ next(): drops them
//
// The consumer's thread reads headers, in submit(); pictures are read and decoded by the engine's threads. A
// state is that of Python's WebDataset (datasets/webdataset/flow.py, Run): the stream's places after the
// batch, or, where the stream ended with it, the epoch that follows, and that this one has ended.
#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "api/image_dataset.h"
#include "api/loader_engine.h"
#include "api/sampler_impl.h"
#include "api/shard_list.h"
#include "api/shard_stream.h"
#include "api/transforms_impl.h"
#include "millrace/error.h"
#include "millrace/shards.h"
#include "millrace/state.h"

namespace millrace {
namespace {

// A batch on its way, or the error in its place.
struct Drawn {
  int64_t first = 0;   // number of its first sample in the epoch
  int64_t behind = 0;  // its last ticket + 1
  std::vector<int64_t> labels;
  json::Value state;   // of the stream after it
  bool ended = false;  // the stream, which had no more samples for it
  std::exception_ptr error;
};

// What the engine and its way of making fields share; the consumer's.
struct Drawing {
  std::deque<Drawn> batches;
  std::vector<int64_t> rows;  // of the batch that was made last: which of its samples each is
};

// Moves the rows that were made to the front. Throws the error of a batch that has none.
void close_gaps(loader::Batch& batch, std::vector<int64_t>& rows) {
  const size_t bytes = static_cast<size_t>(batch.shape.channels) * static_cast<size_t>(batch.shape.height) *
                       static_cast<size_t>(batch.shape.width) * dtype_bytes(batch.type);
  auto hole = batch.skipped.begin();
  for (int64_t row = 0; row < batch.rows; ++row) {
    if (hole != batch.skipped.end() && hole->row == row) {
      ++hole;
      continue;
    }
    if (const auto to = rows.size(), from = static_cast<size_t>(row); to != from) {
      if (batch.ragged.empty())
        std::memcpy(batch.images.data() + to * bytes, batch.images.data() + from * bytes, bytes);
      else
        batch.ragged[to] = std::move(batch.ragged[from]);
    }
    rows.push_back(row);
  }
  if (rows.empty() && !batch.skipped.empty()) {
    const loader::SampleError& error = batch.skipped[0].error;
    throw Error(ErrorKind::corrupt_data, error.reason, error.path, error.offset);
  }
  batch.rows = std::ssize(rows);
  if (!batch.ragged.empty()) batch.ragged.resize(rows.size());
}

class StreamShards;

class StreamEngine final : public api::LoaderEngine {
 public:
  StreamEngine(std::shared_ptr<const StreamShards> dataset, const api::EngineOptions& options);

  void set_run_epoch(int64_t number) override { run_epoch_ = number; }
  void start_epoch(uint64_t seed, uint64_t epoch) override;
  bool submit(std::vector<int64_t> wanted) override;
  Status next(api::Made& out, int timeout_ms) override;
  json::Value position() const override {
    return json::Value::Object{{"dataset_state", given_all_ ? beginning(epoch_ + 1) : state_},
                               {"fetcher_state", json::Value::Object{{"dataset_iter_state", nullptr},
                                                                     {"fetcher_ended", given_all_}}}};
  }
  void go_on(const json::Value& position) override;

 private:
  StreamEngine(std::shared_ptr<const StreamShards> dataset, const api::EngineOptions& options,
               std::shared_ptr<sources::StreamSamples> tickets, std::shared_ptr<Drawing> drawing);

  static json::Value beginning(int64_t epoch) {
    return json::Value::Object{{"version", 1}, {"epoch", epoch}};
  }
  void open_stream(int64_t epoch);
  json::Value state_now() const;

  const std::shared_ptr<const StreamShards> dataset_;
  const bool drop_last_;
  const std::shared_ptr<sources::StreamSamples> tickets_;
  const std::shared_ptr<Drawing> drawing_;
  std::unique_ptr<api::ShardStream> stream_;
  int64_t run_epoch_ = 0;          // the loader's number
  int64_t ahead_ = 0;              // the stream's epoch less that
  int64_t epoch_ = 0, drawn_ = 0;  // samples of the epoch
  bool ended_ = false;             // nothing is left to draw,
  bool given_all_ = false;         // nor to give
  json::Value state_;              // after the batch given last
};

class StreamShards final : public Dataset::Impl {
 public:
  StreamShards(std::vector<std::string> of_shards, const Transforms& transforms, StreamOptions of_options)
      : shards(std::move(of_shards)), options(std::move(of_options)),
        pipeline(api::pipeline_of(transforms, options.exif)),
        fields_(api::image_field_specs(*pipeline, options.ragged)) {}

  int64_t size() const override { return -1; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  std::string python_class() const override { return "millrace.datasets.webdataset.dataset.WebDataset"; }
  std::unique_ptr<api::Engine> open(const api::EngineOptions& engine) const override {
    return std::make_unique<StreamEngine>(std::static_pointer_cast<const StreamShards>(shared_from_this()),
                                          engine);
  }

  // What places depend on, in Python's words.
  json::Value described() const {
    json::Value::Array facts{std::to_string(shards.size()) + " shards " +
                             (options.shuffle_shards ? "shuffled" : "in order") + ", seed " +
                             std::to_string(options.seed)};
    if (options.shuffle_buffer > 0)
      facts.emplace_back("shuffle(" + std::to_string(options.shuffle_buffer) + ", initial=100, seed=None)");
    return facts;
  }

  const std::vector<std::string> shards;
  const StreamOptions options;
  const std::shared_ptr<const transforms::ImagePipeline> pipeline;

 private:
  const std::vector<FieldSpec> fields_;
};

std::unique_ptr<loader::DataLoader> loader_of(const StreamShards& dataset, const api::EngineOptions& options,
                                              std::shared_ptr<const sources::SampleFiles> tickets) {
  if (options.on_error == OnError::replace)
    throw Error(ErrorKind::invalid_argument,
                "a stream of shards has no next sample to replace one by; use OnError::skip or "
                "OnError::raise, or indexed_shards()");
  auto images = std::make_shared<loader::ImageDataset>();
  images->files = std::move(tickets);
  images->views.push_back(dataset.pipeline);
  images->ragged = dataset.options.ragged;
  loader::LoaderOptions native = api::loader_options(options);
  if (options.on_error == OnError::skip) native.on_error = loader::ErrorPolicy::leave;
  return loader::DataLoader::create(std::move(images), native);
}

StreamEngine::StreamEngine(std::shared_ptr<const StreamShards> dataset, const api::EngineOptions& options)
    : StreamEngine(std::move(dataset), options, std::make_shared<sources::StreamSamples>(),
                   std::make_shared<Drawing>()) {}

StreamEngine::StreamEngine(std::shared_ptr<const StreamShards> dataset, const api::EngineOptions& options,
                           std::shared_ptr<sources::StreamSamples> tickets, std::shared_ptr<Drawing> drawing)
    : LoaderEngine(loader_of(*dataset, options, tickets),
                   [drawing, memory = api::BatchMemory(options.memory)](loader::Batch& batch) {
                     drawing->rows.clear();
                     close_gaps(batch, drawing->rows);
                     const std::vector<int64_t>& labels = drawing->batches.front().labels;
                     batch.labels.clear();
                     for (const int64_t row : drawing->rows)
                       batch.labels.push_back(labels[static_cast<size_t>(row)]);
                     return api::image_fields(batch, memory);
                   }),
      dataset_(std::move(dataset)), drop_last_(options.drop_last), tickets_(std::move(tickets)),
      drawing_(std::move(drawing)) {}

void StreamEngine::start_epoch(uint64_t seed, uint64_t epoch) {
  LoaderEngine::start_epoch(seed, epoch);
  drawing_->batches.clear();
  tickets_->drop_before(std::numeric_limits<int64_t>::max());
  open_stream(run_epoch_ + ahead_);
  drawn_ = 0;
}

void StreamEngine::open_stream(int64_t epoch) {
  epoch_ = epoch;
  stream_ =
      std::make_unique<api::ShardStream>(dataset_->shards, dataset_->options, static_cast<uint64_t>(epoch));
  ended_ = given_all_ = false;
  state_ = beginning(epoch);
}

json::Value StreamEngine::state_now() const {
  if (ended_) return beginning(epoch_ + 1);
  const StreamOptions& options = dataset_->options;
  return json::Value::Object{{"version", 1},
                             {"epoch", epoch_},
                             {"repetition", 0},
                             {"given", json::Value::Array{0, 0}},
                             {"places", stream_->places()},
                             {"reader", json::Value::Array{options.rank, options.ranks, 0, 1}},
                             {"pipeline", dataset_->described()}};
}

void StreamEngine::go_on(const json::Value& position) {
  const json::Value* const state = position.find("dataset_state");
  const json::Value* const epoch = state == nullptr ? nullptr : state->find("epoch");
  const json::Value* const samples = position.find("samples");
  if (epoch == nullptr || epoch->integer() == nullptr || *epoch->integer() < 0 ||
      state->find("version") == nullptr || *state->find("version") != json::Value(1))
    throw StateError("the state does not say where its stream of shards stood; load another one");
  const json::Value* const fetcher = position.find("fetcher_state");
  const json::Value* const ended = fetcher == nullptr ? nullptr : fetcher->find("fetcher_ended");
  const bool behind_all = ended != nullptr && *ended == json::Value(true) && *epoch->integer() > 0;
  ahead_ = *epoch->integer() - behind_all - run_epoch_;
  open_stream(run_epoch_ + ahead_);
  if (behind_all) {
    ended_ = given_all_ = true;
    return;
  }
  const json::Value* const places = state->find("places");
  if (places == nullptr) return;
  const json::Value now = state_now();
  for (const char* key : {"pipeline", "reader", "repetition", "given"}) {
    const json::Value* const then = state->find(key);
    if (then == nullptr || *then != *now.find(key))
      throw StateError(std::string("the state was saved for another stream: ") + key + " " +
                       (then == nullptr ? "is missing" : "was " + then->written()) + ", and here it is " +
                       now.find(key)->written() + "; resume with the same shards, seed, buffer and rank");
  }
  if (places->array() != nullptr && !places->array()->empty()) stream_->go_on(*places);
  drawn_ = samples == nullptr || samples->integer() == nullptr ? 0 : *samples->integer();
  state_ = *state;
}

bool StreamEngine::submit(std::vector<int64_t> wanted) {
  if (ended_) return false;
  Drawn batch;
  batch.first = drawn_;
  std::vector<int64_t> tickets;
  try {
    api::StreamedSample sample;
    while (tickets.size() < wanted.size() && stream_->next(sample)) {
      sample.picture.source->will_read(sample.picture.offset, sample.picture.size);
      tickets.push_back(tickets_->add(std::move(sample.picture)));
      batch.labels.push_back(sample.label);
      sample = {};
    }
    ended_ = tickets.size() < wanted.size();
    if (tickets.empty() || (ended_ && drop_last_)) return false;
    batch.behind = tickets.back() + 1;
    batch.state = state_now();
    batch.ended = ended_;
    drawn_ += std::ssize(tickets);
    LoaderEngine::submit(std::move(tickets));
  } catch (const Error&) {  // in the place of its batch, and the last one
    batch.error = std::current_exception();
    ended_ = true;
  }
  drawing_->batches.push_back(std::move(batch));
  return true;
}

api::Engine::Status StreamEngine::next(api::Made& out, int timeout_ms) {
  if (drawing_->batches.empty()) {
    given_all_ = true;
    return Status::end;
  }
  const auto let_go = [this] {
    Drawn batch = std::move(drawing_->batches.front());
    drawing_->batches.pop_front();
    tickets_->drop_before(batch.behind);
    state_ = std::move(batch.state);
    given_all_ = batch.ended;
    return batch;
  };
  if (const std::exception_ptr error = drawing_->batches.front().error) {
    drawing_->batches.pop_front();
    std::rethrow_exception(error);
  }
  Status status = Status::pending;
  try {
    status = LoaderEngine::next(out, timeout_ms);
  } catch (...) {
    let_go();
    throw;
  }
  if (status != Status::ready) return status;
  const Drawn batch = let_go();
  out.indices.clear();
  for (const int64_t row : drawing_->rows) out.indices.push_back(batch.first + row);
  return status;
}

}  // namespace

Dataset stream_shards(const std::vector<std::string>& shards, const Transforms& transforms,
                      const StreamOptions& options) {
  const auto refuse = [](const std::string& rule) {
    throw Error(ErrorKind::invalid_argument, "stream_shards(): " + rule);
  };
  if (options.image_suffixes.empty()) refuse("there are no image_suffixes; give one at least");
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    refuse("rank is " + std::to_string(options.rank) + " of " + std::to_string(options.ranks) +
           "; ranks are 0 .. ranks - 1, and at least one");
  if (options.shuffle_buffer < 0 || options.shuffle_buffer > api::kMostSamples)
    refuse("shuffle_buffer is " + std::to_string(options.shuffle_buffer) + "; give 0 to 2^62 samples");
  return Dataset(std::make_shared<const StreamShards>(api::expand_shards(shards), transforms, options));
}

}  // namespace millrace
