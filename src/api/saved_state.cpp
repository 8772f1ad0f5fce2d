#include "api/saved_state.h"

#include <utility>

#include "api/state_text.h"
#include "millrace/error.h"
#include "millrace/state.h"

namespace millrace::api {
namespace {

using json::Value;

constexpr const char* kRemedy = "the state is damaged or not complete; load another one, or begin anew";
constexpr int64_t kVersion = 1;

// The entries of an object in a state, each checked. `name`: where it is, "" for the state itself.
class Fields {
 public:
  Fields(const Value& values, std::string name) : values_(values), name_(std::move(name)) {
    if (values.object() == nullptr) fail(name_.empty() ? "the state" : name_, values, "an object");
  }

  // Null for an entry that is not there or null.
  const Value* optional(const char* key) const {
    const Value* const found = values_.find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  }
  const Value& any(const char* key) const {
    if (const Value* const found = values_.find(key)) return *found;
    throw StateError("the state has no " + at(key) + ": " + kRemedy);
  }
  int64_t number(const char* key, int64_t least = 0) const {
    const Value& value = any(key);
    if (value.integer() == nullptr || *value.integer() < least)
      fail(at(key), value, "a whole number of " + std::to_string(least) + " or more");
    return *value.integer();
  }
  int64_t number_or(const char* key, int64_t otherwise, int64_t least = 0) const {
    return optional(key) == nullptr ? otherwise : number(key, least);
  }
  bool flag(const char* key) const {
    if (any(key).boolean() == nullptr) fail(at(key), any(key), "true or false");
    return *any(key).boolean();
  }
  bool flag_or(const char* key, bool otherwise) const {
    return optional(key) == nullptr ? otherwise : flag(key);
  }
  Fields part(const char* key) const { return {any(key), at(key)}; }
  std::string at(const char* key) const { return name_ + "['" + key + "']"; }

 private:
  [[noreturn]] static void fail(const std::string& at, const Value& value, const std::string& what) {
    throw StateError(at + " should be " + what + ", but is " + value.written().substr(0, 60) + ": " +
                     kRemedy);
  }
  const Value& values_;
  const std::string name_;
};

// Entries that Python writes for what C++ does not do.
void refuse_what_is_pythons(const Fields& order) {
  const auto any_in = [](const Value* list) {
    return list != nullptr && list->array() != nullptr && !list->array()->empty();
  };
  const char* what = nullptr;
  if (any_in(order.optional("pending"))) what = "a loader with in_order=False";
  if (order.flag_or("iterated_anew", false) || order.flag_or("drew_when_made", false))
    what = "a loader with a sampler of the user's own";
  if (what != nullptr)
    throw StateError(std::string("this state is of ") + what +
                     ", which only Python can go on with; resume it there");
}

std::vector<std::vector<int64_t>> read_lists(const Value* lists, const std::string& at) {
  std::vector<std::vector<int64_t>> read;
  if (lists == nullptr) return read;
  const auto fail = [&](const char* what) {
    throw StateError(at + " should be lists of " + what + ": " + kRemedy);
  };
  if (lists->array() == nullptr) fail("lists");
  for (const Value& list : *lists->array()) {
    if (list.array() == nullptr || list.array()->empty()) fail("lists");
    std::vector<int64_t>& indices = read.emplace_back();
    for (const Value& index : *list.array()) {
      if (index.integer() == nullptr || *index.integer() < 0) fail("indices");
      indices.push_back(*index.integer());
    }
  }
  return read;
}

Value or_null(const Value* value) { return value == nullptr ? Value{} : *value; }

Value main_part(const RunState& state) {
  Value part = Value::Object{{"_index_sampler_state", nullptr},
                             {"_sampler_iter_state", state.sampler},
                             {"_sampler_iter_yielded", state.place.lists}};
  return part;
}

Value own_part(const RunState& state) {
  Value generators = Value::Object{};
  if (!state.generator.empty()) generators.set("loader", state.generator);
  Value order = Value::Object{{"samples", state.place.samples}, {"ranks", state.ranks}};
  if (state.sampler_epoch) order.set("sampler_epoch", *state.sampler_epoch);
  order.set("generators", std::move(generators));
  if (!state.again.empty()) {
    Value::Array again;
    for (const std::vector<int64_t>& list : state.again)
      again.emplace_back(Value::Array(list.begin(), list.end()));
    order.set("again", std::move(again));
  }
  Value own = Value::Object{
      {"version", kVersion},    {"base_seed", state.base_seed},       {"epoch", state.engine_epoch},
      {"number", state.number}, {"workers_stay", state.workers_stay}, {"order", std::move(order)}};
  if (state.place.left_out > 0) own.set("left_out", state.place.left_out);
  if (state.elastic) own.set("elastic", true);
  own.set("fingerprint", state.fingerprint);
  return own;
}

Value parsed(std::string_view text) {
  try {
    return Value::parse(text);
  } catch (const Error& error) {
    throw StateError(std::string(error.what()) + "; give what state() returned");
  }
}

}  // namespace

Value fingerprint(std::string_view dataset, int64_t length, const std::string& sampler,
                  std::optional<int64_t> batch_size, bool drop_last) {
  return Value::Object{{"dataset", std::string(dataset)},
                       {"length", length < 0 ? std::nullopt : std::optional(length)},
                       {"sampler", sampler},
                       {"batch_size", batch_size},
                       {"drop_last", drop_last}};
}

std::string written(const RunState& state) {
  Value whole;
  if (state.workers == 0) {
    whole = main_part(state);
    whole.set("_num_yielded", state.place.batches);
    whole.set("_IterableDataset_len_called", nullptr);
    whole.set("_shared_seed", nullptr);
    whole.set("fetcher_state", state.fetcher);
    whole.set("dataset_state", state.dataset);
  } else {
    Value main = Value::Object{{"_num_workers", state.workers}};
    const Value part = main_part(state);
    for (const auto& [key, value] : *part.object()) main.set(key, value);
    main.set("_IterableDataset_len_called", nullptr);
    main.set("_shared_seed", nullptr);
    main.set("_base_seed", state.base_seed);
    Value workers = Value::Object{};
    for (int worker = 0; worker < state.workers; ++worker)
      workers.set("worker_" + std::to_string(worker), Value::Object{{"worker_id", worker},
                                                                    {"fetcher_state", state.fetcher},
                                                                    {"dataset_state", state.dataset}});
    whole = Value::Object{{"_snapshot", Value::Object{{"_snapshot_step", state.place.batches},
                                                      {"_last_yielded_worker_id", state.workers - 1},
                                                      {"_main_snapshot", std::move(main)},
                                                      {"_worker_snapshots", std::move(workers)}}},
                          {"_steps_since_snapshot", 0}};
  }
  whole.set("_iterator_finished", state.finished);
  whole.set("millrace", own_part(state));
  return with_checksum(whole).written();
}

RunState read_state(std::string_view text) {
  const Value loaded = parsed(text);
  const Fields top(loaded, "");
  const bool workers = top.optional("_snapshot") != nullptr;
  if (!workers && loaded.find("_num_yielded") == nullptr) {
    if (loaded.find("kind") != nullptr && loaded.find("position") != nullptr)
      throw StateError("this is the state of a sampler, " + loaded.find("kind")->written() +
                       "; load the state of a loader");
    throw StateError(
        "this is no loader's state: it has neither '_num_yielded' (no workers) nor '_snapshot' (workers)");
  }
  if (loaded.find("millrace") == nullptr)
    throw StateError(
        "the state is not from millrace: only what Loader::state() gave, or state_dict() of "
        "millrace.DataLoader, can be loaded here");
  if (const int64_t version = top.part("millrace").number_or("version", kVersion); version != kVersion)
    throw StateError("this state has version " + std::to_string(version) +
                     ", and this millrace reads version " + std::to_string(kVersion) +
                     "; load it with the millrace that saved it");
  const Value checked = without_checksum(loaded, "the loader's state");
  const Fields state(checked, ""), own = state.part("millrace"), order = own.part("order");
  refuse_what_is_pythons(order);
  const Fields snapshot = workers ? state.part("_snapshot") : state;
  const Fields main = workers ? snapshot.part("_main_snapshot") : state;
  if (workers && state.number("_steps_since_snapshot") > 0)
    throw StateError(
        "the state was not taken at this step, and C++ makes no batch again; use snapshot_every_n_steps=1");

  RunState run;
  run.workers = workers ? static_cast<int>(main.number("_num_workers", 1)) : 0;
  run.finished = state.flag("_iterator_finished");
  if (own.optional("base_seed") != nullptr) run.base_seed = own.number("base_seed", INT64_MIN);
  run.engine_epoch = static_cast<uint64_t>(own.number_or("epoch", 0));
  run.workers_stay = own.flag_or("workers_stay", false);
  run.number = own.number_or("number", -1, -1);
  if (order.optional("sampler_epoch") != nullptr)
    run.sampler_epoch = static_cast<uint64_t>(order.number("sampler_epoch", 0));
  run.ranks = static_cast<int>(order.number_or("ranks", 1, 1));
  if (order.optional("generators") != nullptr) {
    const Fields generators = order.part("generators");
    if (const Value* const loader = generators.optional("loader")) {
      if (loader->text() == nullptr)
        throw StateError(generators.at("loader") + " should be text: " + kRemedy);
      run.generator = *loader->text();
    }
  }
  run.elastic = own.flag_or("elastic", false);
  run.counts_epochs = own.optional("dataset_epoch") != nullptr;
  run.again = read_lists(order.optional("again"), order.at("again"));
  run.place.lists = main.number("_sampler_iter_yielded");
  run.place.samples = order.number_or("samples", run.place.lists);
  run.place.batches = workers ? snapshot.number("_snapshot_step") : state.number("_num_yielded");
  run.place.left_out = own.number_or("left_out", 0);
  run.sampler = or_null(main.optional("_sampler_iter_state"));
  run.fingerprint = or_null(own.optional("fingerprint"));
  if (workers) {
    const Fields each = snapshot.part("_worker_snapshots");
    for (int worker = 0; worker < run.workers; ++worker) {
      const Value* const part = each.optional(("worker_" + std::to_string(worker)).c_str());
      const Value dataset = or_null(part == nullptr ? nullptr : part->find("dataset_state"));
      if (worker == 0) {
        run.dataset = dataset;
        run.fetcher = or_null(part == nullptr ? nullptr : part->find("fetcher_state"));
      } else if (dataset != run.dataset) {  // Python's workers read streams of their own; threads share one
        throw StateError(
            "the state holds what each worker's dataset said of itself, which only Python can go on with");
      }
    }
  } else {
    run.dataset = or_null(state.optional("dataset_state"));
    run.fetcher = or_null(state.optional("fetcher_state"));
  }
  return run;
}

}  // namespace millrace::api
