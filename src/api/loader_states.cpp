// The states of a Loader: out, in, and what an epoch begins with.
#include <algorithm>
#include <utility>

#include "api/loader_impl.h"
#include "api/state_text.h"
#include "millrace/error.h"
#include "millrace/state.h"

namespace millrace {
namespace {

using json::Value;

// A batch sampler's state holds that of the sampler below it, or is the only one.
const Value& inner_state(const Value& state) {
  const Value* const inner = state.find("sampler");
  return inner == nullptr ? state : *inner;
}

std::string text_of(const Value& state, const char* key) {
  const Value* const value = state.find(key);
  return value != nullptr && value->text() != nullptr ? *value->text() : "";
}

}  // namespace

Value Loader::Impl::fingerprint() const {
  const bool own_batches = options_.batch_sampler.has_value();
  return api::fingerprint(
      dataset_.impl()->python_class(), dataset_.size(),
      sampler_.impl() ? sampler_.impl()->name() : "BatchSampler of _InfiniteConstantSampler",
      own_batches ? std::nullopt : std::optional(options_.batch_size), options_.drop_last);
}

void Loader::Impl::check(const api::RunState& state) const {
  if (!streams_ && state.counts_epochs)
    throw StateError(
        "this state is of a dataset that counts its epochs, which only Python can go on with; resume it "
        "there");
  if (!streams_ && !state.dataset.is_null())
    throw StateError("the state holds a Stateful dataset's own state, which only Python can go on with");
  const Value now = fingerprint();
  for (const auto& [key, what] : {std::pair{"dataset", "dataset"},
                                  {"length", "number of samples in the dataset"},
                                  {"sampler", "sampler"},
                                  {"batch_size", "batch_size"},
                                  {"drop_last", "drop_last"}}) {
    const std::string_view name = key;
    if (state.elastic && (name == "batch_size" || name == "drop_last")) continue;
    const Value* const then = state.fingerprint.find(key);
    if (then == nullptr || *then == *now.find(key)) continue;
    if (name == "dataset" && then->text() != nullptr && dataset_.impl()->is_called(*then->text())) continue;
    throw StateError(std::string("the state was saved for another ") + what + ": " + then->written() +
                     ", and this loader has " + now.find(key)->written() +
                     "; a resumed order would be wrong. Give the loader what it had then, or start anew");
  }
  const BatchSampler::Impl* const sampler = sampler_.impl().get();
  const bool in_the_middle = !state.finished && state.place.lists > 0;
  if (sampler != nullptr && in_the_middle) {
    if (state.sampler.is_null())
      throw StateError(
          "the state is from behind " + std::to_string(state.place.lists) +
          " index lists, and does not say where the sampler stood: '_sampler_iter_state' is null; load "
          "another one");
    sampler->check(state.sampler);
    const Value* const epoch = inner_state(state.sampler).find("epoch");
    if (sampler->has_epochs() && (!state.sampler_epoch || *epoch != Value(*state.sampler_epoch)))
      throw StateError("the state's sampler is in epoch " + epoch->written() +
                       ", and the run in another one; the state is damaged, load another one");
    if (sampler->draws() && !state.generator.empty())
      throw StateError(
          "the state is of a sampler with a generator of its own beside the loader's; C++ has one for both. "
          "Give "
          "Python's sampler and loader the same generator");
  }
  if ((!state.finished || state.workers_stay) && !state.base_seed)
    throw StateError(
        "the state has no base seed, so what is random about its samples is lost; load another one");
  if (state.generator.empty() && !(sampler != nullptr && sampler->draws() && in_the_middle))
    throw StateError(
        "the state does not say where the loader's generator stood, as that of a Python loader without "
        "generator=; give "
        "it generator=torch.Generator() for states that C++ can go on with");
  samplers::TorchGenerator twin = rng_;
  if (!state.generator.empty()) api::put_back(twin, state.generator);
  if (const std::string text = text_of(inner_state(state.sampler), "generator"); !text.empty())
    api::put_back(twin, text);
}

api::RunState Loader::Impl::start_of(const std::optional<api::RunState>& saved) {
  const bool goes_on = saved && !saved->finished;
  // After an epoch, the saved generator draws on. In the middle of one, the base seed drawn here is not used,
  // as in Python, and the generator goes back to its saved state.
  if (saved && saved->finished) api::put_back(rng_, saved->generator);
  api::RunState start;
  bool begun = false;
  {
    const std::lock_guard lock(mutex_);
    start = now_;
    begun = begun_;
  }
  // A run with workers that stay has one base seed, and counts its epochs.
  const api::RunState& before = saved ? *saved : start;
  const bool stays = before.workers_stay && !goes_on;
  const int64_t drawn = stays ? before.base_seed.value_or(0) : rng_.base_seed();
  const uint64_t engine_epoch = (saved || stays ? before.engine_epoch : 0) + (stays ? 1 : 0);
  if (goes_on && !saved->generator.empty()) api::put_back(rng_, saved->generator);
  start.finished = false;
  start.place = {};
  start.again.clear();
  start.sampler = start.dataset = start.fetcher = {};
  start.engine_epoch = engine_epoch;
  start.base_seed = drawn;
  start.generator = api::packed_generator(rng_);
  if (saved) {
    start.workers_stay = saved->workers_stay;
    start.number = goes_on ? std::max<int64_t>(0, saved->number) : 1 + std::max(start.number, saved->number);
    if (start.sampler_epoch) start.sampler_epoch = saved->sampler_epoch.value_or(0);
  } else {
    ++start.number;
  }
  const bool moves = sampler_.impl() && sampler_.impl()->moves();
  if (moves && !goes_on && (saved || begun)) ++*start.sampler_epoch;
  if (saved && streams_) start.dataset = saved->dataset, start.fetcher = saved->fetcher;
  if (goes_on) {
    start.base_seed = saved->base_seed;
    start.place = saved->place;
    start.sampler = saved->sampler;
    start.again = saved->again;
    if (start.place.lists > 0 && !start.sampler.is_null())
      start.place.position = *inner_state(start.sampler).find("position")->integer();
  }
  return start;
}

api::ReadFrom Loader::Impl::reading_from(const api::RunState& start) {
  api::ReadFrom from{start.sampler_epoch.value_or(0), 0, &rng_, {}};
  if (start.place.lists == 0 || start.sampler.is_null()) return from;
  from.position = start.place.position;
  from.before = text_of(inner_state(start.sampler), "generator");
  return from;
}

api::RunState Loader::Impl::run_state() const {
  api::RunState state = now_;
  state.sampler = {};
  const BatchSampler::Impl* const sampler = sampler_.impl().get();
  if (sampler == nullptr || state.finished || state.place.lists == 0) return state;
  state.sampler = sampler->state_at(state.sampler_epoch.value_or(0), state.place.position, origin_);
  if (sampler->draws()) state.generator.clear();
  return state;
}

std::string Loader::Impl::state() const {
  const Visit visit(*this);
  api::RunState state;
  {
    const std::lock_guard lock(mutex_);
    if (!loaded_.empty()) return loaded_;
    state = run_state();
  }
  return api::written(state);
}

void Loader::Impl::load_state(const std::string& text) {
  const Visit visit(*this);
  const Seat seat(*this);
  if (closed()) fail_closed();
  api::RunState state = api::read_state(text);
  check(state);
  phase_ = Phase::between;
  iteration_ = new_iteration();
  const std::lock_guard lock(mutex_);
  loaded_ = text;
  loaded_number_ =
      state.finished ? 1 + std::max(now_.number, state.number) : std::max<int64_t>(0, state.number);
  saved_ = std::move(state);
}

}  // namespace millrace
