// MixtureSampler: several sources in exact proportions, with the draws and states of Python's.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "api/refuse.h"
#include "api/sampler_impl.h"
#include "millrace/error.h"
#include "millrace/state.h"
#include "samplers/fair_shares.h"
#include "samplers/mixture.h"

namespace millrace {
namespace {

using json::Value;

constexpr int64_t kEndless = int64_t{1}
                             << 62;  // what makes the ranks' counts equal is drawn on, not repeated

class MixtureOrder final : public api::ByEpoch {
 public:
  MixtureOrder(std::vector<int64_t> lengths, std::vector<double> weights, int64_t num_samples, uint64_t seed,
               bool shuffle, Ranks of_ranks)
      : ByEpoch(num_samples, seed, of_ranks), lengths_(std::move(lengths)), weights_(std::move(weights)),
        shares_(samplers::fair_shares(weights_)), shuffle_(shuffle) {}
  const char* kind() const override { return "MixtureSampler"; }
  Value facts() const override {
    Value facts = ByEpoch::facts();
    facts.set("lengths", api::digest<int64_t>(lengths_));
    facts.set("shuffle", shuffle_);
    return facts;
  }
  // The stretch of the epoch that a position is in, in which weights are the same: here all of it.
  Value entries() const override {
    return Value::Object{{"weights", Value::Array(weights_.begin(), weights_.end())},
                         {"since", 0},
                         {"counts", Value::Array(weights_.size(), Value(0))},
                         {"then", Value::Array{}}};
  }
  void check(const Value& state) const override {
    const Value all = entries();
    for (const auto& [key, mine] : *all.object()) {
      const Value* const there = state.find(key);
      if (there == nullptr)
        throw StateError("the state of a MixtureSampler lacks " + key + ": it is damaged; load another one");
      if (*there == mine) continue;
      if (key == "weights")
        throw StateError("the state is of a MixtureSampler with weights " + there->written() +
                         ", and this one has " + mine.written() + "; build it with those");
      throw StateError(
          "the weights of the state's MixtureSampler were changed in the epoch, by set_weights(), which only "
          "Python can go on with; resume it there");
    }
  }
  bool moves() const override { return true; }  // with shuffle_ false, too: by which source is next
  api::Order order(uint64_t epoch) const override {
    return api::order_of(std::make_shared<samplers::Mixture>(lengths_, shares_, seed_, epoch, shuffle_));
  }
  std::unique_ptr<api::IndexReader> read(const api::ReadFrom& from) const override {
    const int64_t steps = api::steps_left(length(), from.position, ranks.count, ranks.drop_last);
    return api::order_reader([this, epoch = from.epoch] { return order(epoch); }, kEndless, from.position,
                             steps, ranks.rank, ranks.count);
  }

 private:
  const std::vector<int64_t> lengths_;
  const std::vector<double> weights_;
  const std::vector<uint64_t> shares_;
  const bool shuffle_;
};

}  // namespace

Sampler mixture_sampler(std::vector<int64_t> lengths, std::vector<double> weights,
                        std::optional<int64_t> num_samples, uint64_t seed, bool shuffle, Ranks ranks) {
  const int64_t sum = api::sum_of("lengths", lengths);
  if (weights.size() != lengths.size())
    api::refuse("weights should be one for each of the " + std::to_string(lengths.size()) +
                " lengths, but are " + std::to_string(weights.size()));
  const bool wrong = std::any_of(weights.begin(), weights.end(),
                                 [](double weight) { return !std::isfinite(weight) || weight < 0; });
  if (wrong || !(std::accumulate(weights.begin(), weights.end(), 0.0) > 0))
    api::refuse("weights should be finite, not negative and not all 0, but are " +
                Value(Value::Array(weights.begin(), weights.end())).written());
  for (size_t i = 0; i < lengths.size(); ++i)
    if (weights[i] > 0 && lengths[i] == 0)
      api::refuse("source " + std::to_string(i) + " has a weight but no samples; give it weight 0");
  const int64_t total = num_samples ? api::checked("num_samples", *num_samples, 1) : sum;
  return Sampler(std::make_shared<const MixtureOrder>(std::move(lengths), std::move(weights), total, seed,
                                                      shuffle, ranks));
}

}  // namespace millrace
