// The samplers that draw from the loader's generator: torch's RandomSampler and WeightedRandomSampler.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "api/refuse.h"
#include "api/sampler_impl.h"
#include "samplers/alias_table.h"
#include "samplers/torch_draws.h"

namespace millrace {
namespace {

using json::Value;

constexpr int64_t kReplacedAtOnce = 32;  // of torch's RandomSampler
constexpr int64_t kComputedAtOnce = 1024;
constexpr size_t kMostCategories = size_t{1} << 24;  // of torch.multinomial

class Drawn : public Sampler::Impl {
 public:
  explicit Drawn(int64_t length) : Impl(Ranks{}), length_(length) {}
  int64_t length() const override { return length_; }
  bool has_epochs() const override { return false; }
  bool draws() const override { return true; }
  api::Order order(uint64_t) const override {
    const bool weighted = std::string(kind()) != "RandomSampler";
    api::refuse(std::string("the order of ") + (weighted ? "weighted_random_sampler()" : "random_sampler()") +
                " is drawn from a loader's generator; ask the loader, or take " +
                (weighted ? "weighted_sampler()" : "permutation_sampler()"));
  }

 private:
  const int64_t length_;
};

class Random final : public Drawn {
 public:
  Random(int64_t n, bool replacement, int64_t num_samples)
      : Drawn(num_samples), n_(n), replacement_(replacement) {}
  const char* kind() const override { return "RandomSampler"; }
  Value facts() const override {
    return Value::Object{
        {"length", length()}, {"samples", n_}, {"replacement", replacement_}, {"own_generator", true}};
  }
  bool never_repeats() const override { return !replacement_ && length() <= n_; }
  std::unique_ptr<api::IndexReader> read(const api::ReadFrom& from) const override {
    if (!replacement_) return api::random_reader(n_, length(), from.position, *from.generator, from.before);
    auto draw = [n = n_, left = length()](samplers::TorchGenerator& generator) mutable {
      const int64_t count = std::min(left, kReplacedAtOnce);
      left -= count;
      return samplers::randint(n, count, generator);
    };
    return api::block_reader(std::move(draw), from.position, *from.generator, from.before);
  }

 private:
  const int64_t n_;
  const bool replacement_;
};

class WeightedRandom final : public Drawn {
 public:
  WeightedRandom(std::vector<double> weights, int64_t num_samples, bool replacement)
      : Drawn(num_samples), weights_(std::make_shared<const std::vector<double>>(std::move(weights))),
        replacement_(replacement) {}
  const char* kind() const override { return "WeightedRandomSampler"; }
  Value facts() const override {
    return Value::Object{{"length", length()},
                         {"categories", std::ssize(*weights_)},
                         {"replacement", replacement_},
                         {"method", by_alias() ? "alias" : "multinomial"},
                         {"own_generator", true}};
  }
  std::unique_ptr<api::IndexReader> read(const api::ReadFrom& from) const override {
    api::DrawBlock draw;
    if (by_alias())
      draw = [this, at = int64_t{0}, order = api::Order{}](samplers::TorchGenerator& generator) mutable {
        if (!order) order = alias_order(static_cast<uint64_t>(generator.base_seed()));
        std::vector<int64_t> positions(static_cast<size_t>(std::min(kComputedAtOnce, length() - at)));
        std::iota(positions.begin(), positions.end(), at);
        at += std::ssize(positions);
        std::vector<int64_t> indices(positions.size());
        order(positions, indices);
        return indices;
      };
    else
      draw = [this, drawn = false](samplers::TorchGenerator& generator) mutable {
        return std::exchange(drawn, true)
                   ? std::vector<int64_t>{}
                   : samplers::multinomial(*weights_, length(), replacement_, generator);
      };
    return api::block_reader(std::move(draw), from.position, *from.generator, from.before);
  }

 private:
  bool by_alias() const { return weights_->size() > kMostCategories; }
  api::Order alias_order(uint64_t seed) const {
    if (replacement_) return api::order_of(std::make_shared<const samplers::AliasTable>(*weights_, seed, 0));
    return [drawn = samplers::weighted_order(*weights_, length(), seed, 0)](
               std::span<const int64_t> positions, std::span<int64_t> out) {
      for (size_t i = 0; i < positions.size(); ++i) out[i] = drawn[static_cast<size_t>(positions[i])];
    };
  }

  const std::shared_ptr<const std::vector<double>> weights_;
  const bool replacement_;
};

}  // namespace

Sampler random_sampler(int64_t n, bool replacement, std::optional<int64_t> num_samples) {
  api::checked("n", n, 0);
  if (num_samples) {
    api::checked("num_samples", *num_samples, 1);
    if (n == 0)
      api::refuse("there is nothing to draw num_samples=" + std::to_string(*num_samples) + " from: n=0");
  }
  return Sampler(std::make_shared<const Random>(n, replacement, num_samples.value_or(n)));
}

Sampler weighted_random_sampler(std::vector<double> weights, int64_t num_samples, bool replacement) {
  api::check_weights(weights, num_samples);
  if (!replacement && num_samples > std::ssize(weights))
    api::refuse("cannot draw num_samples=" + std::to_string(num_samples) + " without replacement from " +
                std::to_string(weights.size()) + " weights; draw fewer, or with replacement");
  return Sampler(std::make_shared<const WeightedRandom>(std::move(weights), num_samples, replacement));
}

}  // namespace millrace
