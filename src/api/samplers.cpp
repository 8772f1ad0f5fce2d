// The samplers of single indices.
#include "millrace/samplers.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "api/refuse.h"
#include "api/sampler_impl.h"
#include "millrace/error.h"
#include "samplers/alias_table.h"
#include "samplers/keyed_permutation.h"
#include "samplers/random_permutation.h"
#include "samplers/segments.h"
#include "samplers/shuffle_order.h"

namespace millrace {
namespace {

using api::checked;
using api::digest;
using api::refuse;
using json::Value;

void in_order(std::span<const int64_t> positions, std::span<int64_t> out) {
  std::copy(positions.begin(), positions.end(), out.begin());
}

class Sequential final : public Sampler::Impl {
 public:
  explicit Sequential(int64_t n) : Impl(Ranks{}), n_(checked("n", n, 0)) {}
  const char* kind() const override { return "SequentialSampler"; }
  Value facts() const override { return Value::Object{{"length", n_}}; }
  int64_t length() const override { return n_; }
  bool has_epochs() const override { return false; }
  bool never_repeats() const override { return true; }
  api::Order order(uint64_t) const override { return in_order; }

 private:
  const int64_t n_;
};

class Distributed final : public api::ByEpoch {
 public:
  Distributed(int64_t n, Ranks of_ranks, uint64_t seed, bool shuffle)
      : api::ByEpoch(checked("n", n, 0), seed, of_ranks), shuffle_(shuffle) {}
  const char* kind() const override { return "DistributedSampler"; }
  Value facts() const override {
    Value facts = api::ByEpoch::facts();
    facts.set("shuffle", shuffle_);
    return facts;
  }
  bool moves() const override { return shuffle_; }
  api::Order order(uint64_t epoch) const override {
    if (!shuffle_) return in_order;
    return api::order_of(std::make_shared<samplers::RandomPermutation>(length(), seed_ + epoch));
  }

 private:
  const bool shuffle_;
};

class Permutation final : public api::ByEpoch {
 public:
  Permutation(int64_t n, uint64_t seed, Ranks of_ranks) : api::ByEpoch(checked("n", n, 0), seed, of_ranks) {}
  const char* kind() const override { return "PermutationSampler"; }
  api::Order order(uint64_t epoch) const override {
    return api::order_of(std::make_shared<const samplers::KeyedPermutation>(length(), seed_, epoch));
  }
};

class Weighted final : public api::ByEpoch {
 public:
  Weighted(std::vector<double> weights, int64_t num_samples, bool replacement, uint64_t seed, Ranks of_ranks)
      : api::ByEpoch(num_samples, seed, of_ranks), weights_(std::move(weights)), replacement_(replacement),
        digest_(digest<double>(weights_)) {
    const int64_t above = api::check_weights(weights_, num_samples);
    if (!replacement && above < num_samples)
      refuse("cannot draw num_samples=" + std::to_string(num_samples) + " without replacement from " +
             std::to_string(above) + " weights above 0; draw fewer, or with replacement");
  }
  const char* kind() const override { return "DistributedWeightedSampler"; }
  Value facts() const override {
    Value facts = api::ByEpoch::facts();
    facts.set("weights", digest_);
    facts.set("replacement", replacement_);
    return facts;
  }
  api::Order order(uint64_t epoch) const override {
    if (replacement_)
      return api::order_of(std::make_shared<const samplers::AliasTable>(weights_, seed_, epoch));
    auto drawn = samplers::weighted_order(weights_, length(), seed_, epoch);
    return [drawn = std::move(drawn)](std::span<const int64_t> positions, std::span<int64_t> out) {
      for (size_t i = 0; i < positions.size(); ++i) out[i] = drawn[static_cast<size_t>(positions[i])];
    };
  }

 private:
  const std::vector<double> weights_;
  const bool replacement_;
  const Value digest_;
};

// buffer_size 0: ShardShuffle.
class Shards final : public api::ByEpoch {
 public:
  Shards(std::vector<int64_t> lengths, int64_t buffer_size, uint64_t seed, Ranks of_ranks)
      : api::ByEpoch(api::sum_of("shard_lengths", lengths), seed, of_ranks), lengths_(std::move(lengths)),
        buffer_size_(buffer_size) {}
  const char* kind() const override { return buffer_size_ > 0 ? "TwoTierShuffle" : "ShardShuffle"; }
  Value facts() const override {
    Value facts = api::ByEpoch::facts();
    facts.set("shards", digest<int64_t>(lengths_));
    if (buffer_size_ > 0) facts.set("buffer_size", buffer_size_);
    return facts;
  }
  api::Order order(uint64_t epoch) const override {
    api::Order shards = api::order_of(std::make_shared<const samplers::ShardOrder>(lengths_, seed_, epoch));
    if (buffer_size_ == 0) return shards;
    const auto buffer = std::make_shared<samplers::ShuffleOrder>(length(), buffer_size_, seed_, epoch);
    return [shards, buffer](std::span<const int64_t> positions, std::span<int64_t> out) {
      std::vector<int64_t> inner(positions.size());
      buffer->at(positions, inner);
      shards(inner, out);
    };
  }

 private:
  const std::vector<int64_t> lengths_;
  const int64_t buffer_size_;
};

template <class T, class... Args>
Sampler make(Args&&... args) {
  return Sampler(std::make_shared<const T>(std::forward<Args>(args)...));
}

const Sampler::Impl& impl_of(const Sampler& sampler) {
  if (!sampler.impl()) refuse("this Sampler is empty; make one by sequential_sampler() or its like");
  return *sampler.impl();
}

}  // namespace

std::unique_ptr<api::IndexReader> Sampler::Impl::read(const api::ReadFrom& from) const {
  const int64_t steps = api::steps_left(length(), from.position, ranks.count, ranks.drop_last);
  return api::order_reader([this, epoch = from.epoch] { return order(epoch); }, length(), from.position,
                           steps, ranks.rank, ranks.count);
}

int64_t Sampler::size() const { return impl_of(*this).size(); }

std::vector<int64_t> Sampler::at(uint64_t epoch, std::span<const int64_t> positions) const {
  const Impl& impl = impl_of(*this);
  const api::Order order = impl.order(epoch);
  for (const int64_t position : positions)
    if (position < 0 || position >= impl.length())
      throw Error(ErrorKind::out_of_range, "an order of " + std::to_string(impl.length()) +
                                               " entries has no position " + std::to_string(position));
  std::vector<int64_t> indices(positions.size());
  order(positions, indices);
  return indices;
}

Sampler sequential_sampler(int64_t n) { return make<Sequential>(n); }
Sampler distributed_sampler(int64_t n, Ranks ranks, uint64_t seed, bool shuffle) {
  return make<Distributed>(n, ranks, seed, shuffle);
}
Sampler permutation_sampler(int64_t n, uint64_t seed, Ranks ranks) {
  return make<Permutation>(n, seed, ranks);
}
Sampler weighted_sampler(std::vector<double> weights, int64_t num_samples, bool replacement, uint64_t seed,
                         Ranks ranks) {
  return make<Weighted>(std::move(weights), num_samples, replacement, seed, ranks);
}
Sampler shard_shuffle(std::vector<int64_t> shard_lengths, uint64_t seed, Ranks ranks) {
  return make<Shards>(std::move(shard_lengths), 0, seed, ranks);
}
Sampler two_tier_shuffle(std::vector<int64_t> shard_lengths, int64_t buffer_size, uint64_t seed,
                         Ranks ranks) {
  return make<Shards>(std::move(shard_lengths), checked("buffer_size", buffer_size, 1), seed, ranks);
}
Sampler shuffle_buffer(int64_t n, int64_t buffer_size, uint64_t seed, Ranks ranks) {
  return two_tier_shuffle({checked("n", n, 0)}, buffer_size, seed, ranks);
}

}  // namespace millrace
