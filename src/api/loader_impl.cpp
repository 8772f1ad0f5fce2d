#include "api/loader_impl.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "api/batch_fields.h"
#include "api/loader_options.h"
#include "api/refuse.h"
#include "api/state_text.h"
#include "millrace/error.h"

namespace millrace {
namespace {

constexpr int kSliceMs = 1000;  // how long an engine waits between two looks at close()

using api::refuse;

[[noreturn]] void fail_memory() {
  throw Error(
      ErrorKind::system,
      "there is no memory left for a batch, or for the order of the samples; use smaller batches, or a "
      "sampler or shuffle buffer that holds less",
      "", -1, ENOMEM);
}

// Rethrows the current exception as an Error, whatever its type.
[[noreturn]] void rethrow_as_error() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail_memory();
  } catch (const std::length_error&) {  // a vector of more elements than there are addresses
    fail_memory();
  } catch (const std::exception& error) {
    throw Error(ErrorKind::system, std::string("a batch could not be made: ") + error.what());
  } catch (...) {
    throw Error(ErrorKind::system,
                "a batch could not be made: something was thrown that is no std::exception");
  }
}

}  // namespace

uint64_t Loader::Impl::new_iteration() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Loader::Impl::Visit::Visit(const Impl& of) : of_(of) {
  if (!of.is_of_this_process())
    throw Error(ErrorKind::unavailable,
                "this loader was made before fork(): its threads do not exist in the child process; make a "
                "new loader here");
  const std::lock_guard lock(of.mutex_);
  ++of.visits_;
}

// The destructor may go on when the lock is free, and not before.
Loader::Impl::Visit::~Visit() {
  const std::lock_guard lock(of_.mutex_);
  --of_.visits_;
  of_.left_.notify_all();
}

Loader::Impl::Seat::Seat(Impl& of) : of_(of) {
  if (of.who_.load() == std::this_thread::get_id())
    refuse(
        "next(), begin() or load_state() was called inside a call of the same loader, by a dataset's read(), "
        "say");
  lock_ = std::unique_lock(of.seat_);
  of.who_.store(std::this_thread::get_id());
}

Loader::Impl::Seat::~Seat() { of_.who_.store(std::thread::id()); }

Loader::Impl::Impl(Dataset dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(api::checked_options(options, dataset_)),
      sampler_(api::sampler_of(dataset_, options_)), streams_(dataset_.size() < 0), rng_(options_.seed),
      threads_(std::max(1, options_.threads)), slots_(api::ahead_of(options_) + 1) {
  if (options_.equal_steps && options_.equal_steps->steps > 0 && sampler_.size() == 0)
    refuse(
        "this rank has no samples at all, so equal_steps has nothing to give again on it; use fewer ranks, "
        "or 0 steps");
  now_.workers = streams_ ? 0 : options_.threads;  // a stream is read by one, as Python's native ones
  now_.ranks = sampler_.impl() ? sampler_.impl()->ranks().count : 1;
  if (sampler_.impl() && sampler_.impl()->has_epochs()) now_.sampler_epoch = 0;
  now_.fingerprint = fingerprint();
  // Where the first epoch begins; no generator moves before it does.
  samplers::TorchGenerator twin = rng_;
  now_.base_seed = twin.base_seed();
  now_.generator = api::packed_generator(twin);
}

Loader::Impl::~Impl() {
  try {
    close();
  } catch (...) {  // a destructor does not throw
  }
  // exit() inside a dataset's read() destroys a static Loader inside a call of that Loader, which cannot end
  // first.
  const int own = who_.load() == std::this_thread::get_id() ? 1 : 0;
  std::unique_lock lock(mutex_);
  left_.wait(lock, [&] { return visits_ <= own; });
}

void Loader::Impl::fail_closed() const {
  throw Error(ErrorKind::unavailable, "the loader was closed; make a new one to go on");
}

bool Loader::Impl::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

int64_t Loader::Impl::size() const {
  if (options_.equal_steps) return options_.equal_steps->steps;
  return sampler_.impl() ? sampler_.size() : -1;
}

void Loader::Impl::open_engine() {
  if (engine_) return;  // only the consumer sets it
  api::EngineOptions options;
  options.threads = options_.threads;
  options.batch_size = options_.batch_sampler ? 0 : options_.batch_size;
  options.on_error = options_.on_error;
  options.drop_last = options_.drop_last;
  options.memory = api::block_source(options_.memory);
  options.slots = api::ahead_of(options_) + 1;
  std::shared_ptr<api::Engine> engine = dataset_.impl()->open(options);
  const std::lock_guard lock(mutex_);
  if (closed_) fail_closed();
  if (options_.threads > 0) engine->set_limits(threads_, slots_);
  engine_ = std::move(engine);
}

// What fails leaves the loader where it was.
void Loader::Impl::begin_epoch() {
  const samplers::TorchGenerator rng = rng_;
  api::RunState now;
  bool begun = false;
  {
    const std::lock_guard lock(mutex_);
    now = now_;
    begun = begun_;
  }
  try {
    open_engine();
    begin_epoch_at(start_of(saved_), saved_ && !saved_->finished);
  } catch (...) {
    rng_ = rng;
    phase_ = Phase::between;
    const std::lock_guard lock(mutex_);
    now_ = std::move(now);
    begun_ = begun;
    throw;
  }
  saved_.reset();
  const std::lock_guard lock(mutex_);
  loaded_.clear();
}

void Loader::Impl::begin_epoch_at(api::RunState start, bool goes_on) {
  const BatchSampler::Impl* const sampler = sampler_.impl().get();
  const api::ReadFrom from = reading_from(start);
  // The rest of an epoch that other ranks began has as many steps on each as it is.
  const auto steps = goes_on && saved_->elastic ? std::nullopt : options_.equal_steps;
  cursor_ = std::make_unique<api::IndexCursor>(sampler, options_.batch_size, from, start.place, steps,
                                               std::exchange(start.again, {}));
  ended_ = false;
  engine_->set_run_epoch(start.number);
  engine_->start_epoch(static_cast<uint64_t>(*start.base_seed), start.engine_epoch);
  if (streams_ && !start.dataset.is_null())
    engine_->go_on(json::Value::Object{{"dataset_state", start.dataset},
                                       {"fetcher_state", goes_on ? start.fetcher : json::Value{}},
                                       {"samples", start.place.samples}});
  if (start.place.lists > 0 && sampler != nullptr && (steps || !sampler->never_repeats())) {
    samplers::TorchGenerator twin = rng_;
    engine_->skip(
        api::IndexCursor::before(*sampler, {from.epoch, 0, &twin, from.before}, start.place.samples, steps));
  }
  left_out_before_ = left_out() - start.place.left_out;
  {
    const std::lock_guard lock(mutex_);
    now_ = std::move(start);
    now_.again = cursor_->again();
    origin_ = {};
    if (now_.place.lists > 0 && sampler != nullptr && sampler->draws())
      origin_ = json::Value::Object{{"generator", from.before}};
    begun_ = true;
  }
  phase_ = Phase::running;
  if (options_.on_error == OnError::skip && !streams_) return submit_all();
  for (int i = options_.threads > 0 ? api::ahead_of(options_) : 0; i > 0 && submit_one(); --i) {
  }
}

bool Loader::Impl::submit_one() {
  std::vector<int64_t> list;
  if (ended_ || !cursor_->draw(list)) {
    ended_ = true;
    return false;
  }
  if (engine_->submit(std::move(list))) return true;
  cursor_->undraw();
  ended_ = true;
  return false;
}

// Under OnError::skip. A resumed epoch is without the samples at its end that took the place of others
// before.
void Loader::Impl::submit_all() {
  std::vector<std::vector<int64_t>> lists;
  for (std::vector<int64_t> list; cursor_->draw(list); list.clear()) lists.push_back(std::move(list));
  for (int64_t left = cursor_->place().left_out; left > 0 && !lists.empty();) {
    const auto count = std::ssize(lists.back());
    if (count > left)
      lists.back().resize(static_cast<size_t>(count - left));
    else
      lists.pop_back();
    left -= count;
  }
  for (auto& list : lists) engine_->submit(std::move(list));
  engine_->end_epoch();
  ended_ = true;
}

// Only what skip leaves out is missing at the epoch's end, so only that is part of a state.
int64_t Loader::Impl::left_out() const {
  return options_.on_error == OnError::skip ? engine_->stats().left_out : 0;
}

void Loader::Impl::draw_ahead() {
  if (options_.threads > 0 && (options_.on_error != OnError::skip || streams_)) submit_one();
}

void Loader::Impl::deliver() {
  cursor_->handed_out();
  const int64_t left = left_out() - left_out_before_;
  json::Value position = streams_ ? engine_->position() : json::Value{};
  const std::lock_guard lock(mutex_);
  now_.place = cursor_->place();
  now_.again = cursor_->again();
  now_.place.left_out = left;
  if (origin_.is_null()) origin_ = cursor_->origin();  // which is an epoch's, and 3 kB
  if (const json::Value* const dataset = position.find("dataset_state")) now_.dataset = *dataset;
  if (const json::Value* const fetcher = position.find("fetcher_state")) now_.fetcher = *fetcher;
}

void Loader::Impl::finish() {
  phase_ = Phase::between;
  ended_iteration_ = std::exchange(iteration_, new_iteration());
  const std::string generator = api::packed_generator(rng_);
  const int64_t left = left_out() - left_out_before_;
  json::Value position = streams_ ? engine_->position() : json::Value{};
  const std::lock_guard lock(mutex_);
  now_.finished = true;
  now_.again.clear();
  now_.generator = generator;
  now_.place.left_out = left;
  if (const json::Value* const dataset = position.find("dataset_state")) now_.dataset = *dataset;
  if (const json::Value* const fetcher = position.find("fetcher_state")) now_.fetcher = *fetcher;
}

bool Loader::Impl::next_of_epoch(Batch& out) {
  // Without threads a list is drawn when its batch is asked for.
  if (cursor_->outstanding() == 0 && !ended_) submit_one();
  api::Made made;
  auto status = api::Engine::Status::pending;
  try {
    while (status == api::Engine::Status::pending) {
      if (closed()) fail_closed();
      status = engine_->next(made, kSliceMs);
    }
  } catch (...) {
    if (closed()) throw;  // and the batch was not handed out
    deliver();
    draw_ahead();
    throw;
  }
  if (closed()) fail_closed();
  if (status == api::Engine::Status::end) {
    finish();
    return false;
  }
  const int64_t number = cursor_->place().batches;
  deliver();
  draw_ahead();
  out = Batch(number, std::move(made.fields), std::move(made.indices));
  return true;
}

bool Loader::Impl::next(Batch& out, std::optional<uint64_t> iteration) {
  const Visit visit(*this);
  const Seat seat(*this);
  try {
    if (closed()) fail_closed();
    if (iteration && *iteration != iteration_) {
      if (*iteration == ended_iteration_) return false;
      refuse(
          "this iterator's epoch was left: begin() or load_state() was called on the same Loader since, by a "
          "loop inside of this one, say; give the inner loop a Loader of its own");
    }
    if (phase_ == Phase::between) begin_epoch();
    return next_of_epoch(out);
  } catch (...) {
    if (closed()) fail_closed();
    rethrow_as_error();
  }
}

uint64_t Loader::Impl::begin() {
  const Visit visit(*this);
  const Seat seat(*this);
  if (closed()) fail_closed();
  phase_ = Phase::between;
  return iteration_ = new_iteration();
}

int64_t Loader::Impl::epoch() const {
  const Visit visit(*this);
  const std::lock_guard lock(mutex_);
  return loaded_.empty() ? std::max<int64_t>(0, now_.number + now_.finished) : loaded_number_;
}

void Loader::Impl::close() {
  if (!is_of_this_process()) return;
  const Visit visit(*this);
  std::shared_ptr<api::Engine> engine;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    engine = engine_;
  }
  if (engine) engine->close();
}

LoaderStats Loader::Impl::stats() const {
  const Visit visit(*this);
  std::shared_ptr<api::Engine> engine;
  {
    const std::lock_guard lock(mutex_);
    engine = engine_;
  }
  return engine ? engine->stats() : LoaderStats{};
}

void Loader::Impl::set_limits(int threads, int batches) {
  const Visit visit(*this);
  api::check_limits(threads, batches);
  std::shared_ptr<api::Engine> engine;
  {
    const std::lock_guard lock(mutex_);
    threads_ = threads;
    slots_ = batches + 1;
    engine = engine_;
  }
  if (engine) engine->set_limits(threads, batches + 1);
}

}  // namespace millrace
