// What samplers check: their arguments, and states.
#include <cmath>
#include <string>

#include "api/refuse.h"
#include "api/sampler_impl.h"
#include "millrace/error.h"
#include "millrace/state.h"

namespace millrace::api {
namespace {

using json::Value;

std::string shown(const Value* value) { return value == nullptr ? "None" : value->written(); }

}  // namespace

void check_ranks(const Ranks& ranks) {
  if (ranks.count < 1 || ranks.rank < 0 || ranks.rank >= ranks.count)
    throw Error(ErrorKind::invalid_argument, "Invalid rank " + std::to_string(ranks.rank) +
                                                 ", rank should be in the interval [0, " +
                                                 std::to_string(int64_t{ranks.count} - 1) + "]");
}

int64_t checked(const char* name, int64_t value, int64_t least) {
  if (value < least)
    refuse(std::string(name) + " should be an integer of " + std::to_string(least) + " or more, but got " +
           name + "=" + std::to_string(value));
  if (value > kMostSamples)
    refuse(std::string(name) + " should be at most 2**62, but got " + name + "=" + std::to_string(value));
  return value;
}

int64_t sum_of(const std::string& name, std::span<const int64_t> lengths) {
  if (lengths.empty()) refuse(name + " should be a sequence of integers, one at least, but is empty");
  int64_t sum = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const std::string entry = name + "[" + std::to_string(i) + "] is " + std::to_string(lengths[i]);
    if (lengths[i] < 0) refuse(name + " should be 0 or more, but " + entry);
    if (lengths[i] > kMostSamples - sum)
      refuse(name + " should be at most 2**62 together, but " + entry + ", and those before it are " +
             std::to_string(sum));
    sum += lengths[i];
  }
  return sum;
}

int64_t check_weights(std::span<const double> weights, int64_t num_samples) {
  if (num_samples <= 0)
    refuse("num_samples should be a positive integer value, but got num_samples=" +
           std::to_string(num_samples));
  checked("num_samples", num_samples, 1);
  int64_t above = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0)
      refuse("weights should be finite and not negative, but weights[" + std::to_string(i) + "] is " +
             std::to_string(weights[i]));
    above += weights[i] > 0;
  }
  if (above == 0)
    refuse("the sum of the " + std::to_string(weights.size()) +
           " weights is 0; at least one must be above 0");
  return above;
}

Value state_head(const char* kind, uint64_t epoch, const Value& facts) {
  Value state = Value::Object{{"version", 1}, {"kind", kind}, {"epoch", epoch}};
  for (const auto& [key, value] : *facts.object()) state.set(key, value);
  return state;
}

void check_state(const Value& state, const char* kind, const Value& facts, bool draws) {
  const std::string name = kind;
  const Value* const theirs = state.find("kind");
  if (theirs == nullptr || theirs->text() == nullptr)
    throw StateError("this is no sampler's state: it has no 'kind'; load the state of a loader");
  if (*theirs->text() != name)
    throw StateError("this is the state of a " + *theirs->text() + ", and this sampler is a " + name +
                     "; build the sampler it is from");
  const Value* const version = state.find("version");
  if (version == nullptr || *version != Value(1))
    throw StateError("the state has version " + shown(version) + "; this millrace reads version 1");
  std::string different;
  for (const auto& [key, value] : *facts.object())
    if (const Value* const there = state.find(key); there == nullptr || *there != value)
      different +=
          (different.empty() ? "" : "; ") + key + "=" + shown(there) + " there, " + value.written() + " here";
  if (!different.empty())
    throw StateError("the state is of another " + name + ": " + different +
                     ". Build it with the same arguments and data");
  for (const char* key : {"epoch", "position"}) {
    const Value* const number = state.find(key);
    if (number == nullptr || number->integer() == nullptr || *number->integer() < 0)
      throw StateError(std::string("the state's ") + key + " is a whole number of 0 or more, not " +
                       shown(number));
  }
  const int64_t position = *state.find("position")->integer(), length = *facts.find("length")->integer();
  constexpr int64_t kMostRanks = 1 << 16;  // the last step of ranks may go beyond the end
  if (position > length + kMostRanks)
    throw StateError("the state's position is " + std::to_string(position) + ", behind the end of a " + name +
                     " of length " + std::to_string(length));
  const Value* const generator = state.find("generator");
  if (draws && position > 0 && (generator == nullptr || generator->text() == nullptr))
    throw StateError("the state of a " + name + " at position " + std::to_string(position) +
                     " has no 'generator', so its order is lost; load another one");
}

}  // namespace millrace::api
