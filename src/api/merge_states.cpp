// merge_states(): one state for any number of ranks.
#include <string>
#include <utility>

#include "api/saved_state.h"
#include "api/state_text.h"
#include "millrace/error.h"
#include "millrace/state.h"

namespace millrace {
namespace {

using json::Value;

int64_t position_of(const api::RunState& state) {
  const Value* sampler = state.sampler.find("sampler");
  if (sampler == nullptr) sampler = &state.sampler;
  const Value* const position = sampler->find("position");
  return position != nullptr && position->integer() != nullptr ? *position->integer() : state.place.samples;
}

void compare(size_t rank, const char* what, const Value& first, const Value& other) {
  if (first != other)
    throw StateError("ranks 0 and " + std::to_string(rank) + " differ in " + what + ": " + first.written() +
                     " and " + other.written() +
                     "; take the states of all ranks at the same step of one run");
}

}  // namespace

std::string merge_states(const std::vector<std::string>& states) {
  if (states.empty())
    throw Error(ErrorKind::invalid_argument,
                "merge_states() was given no state; give those of all ranks, in order");
  std::vector<api::RunState> read;
  for (const std::string& state : states) read.push_back(api::read_state(state));
  const api::RunState& first = read[0];
  for (size_t rank = 0; rank < read.size(); ++rank) {
    const api::RunState& other = read[rank];
    compare(rank, "dataset, sampler or batch size", first.fingerprint, other.fingerprint);
    compare(rank, "number of batches", first.place.batches, other.place.batches);
    compare(rank, "end of epoch", first.finished, other.finished);
    compare(rank, "position in the order", position_of(first), position_of(other));
    if (!other.dataset.is_null() || !other.fetcher.is_null())
      throw StateError(
          "the state of rank " + std::to_string(rank) +
          " holds a dataset's own state, which belongs to one rank; load each rank's state into that rank");
  }
  if (first.ranks == 1 && states.size() > 1)
    throw StateError(
        "this sampler has no order that its " + std::to_string(states.size()) +
        " ranks share, so their states cannot be merged; use a sampler with Ranks, or load each rank's "
        "state into that rank");
  if (static_cast<size_t>(first.ranks) != states.size())
    throw StateError("the states are of " + std::to_string(first.ranks) + " ranks, and " +
                     std::to_string(states.size()) + " were given; give one of each rank, in order");
  // Whatever else the first state says, stays.
  Value merged = api::without_checksum(Value::parse(states[0]), "the loader's state");
  merged.find("millrace")->set("elastic", true);
  return api::with_checksum(merged).written();
}

}  // namespace millrace
