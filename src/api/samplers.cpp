// The samplers of single indices.
#include "millrace/samplers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "api/refuse.h"
#include "api/sampler_impl.h"
#include "io/zlib_bytes.h"
#include "millrace/error.h"
#include "samplers/alias_table.h"
#include "samplers/keyed_permutation.h"
#include "samplers/random_permutation.h"
#include "samplers/segments.h"
#include "samplers/shuffle_order.h"

namespace millrace {
namespace {

using api::refuse;
using json::Value;

int64_t checked(const char* name, int64_t value, int64_t least) {
  if (value < least)
    refuse(std::string(name) + " should be an integer of " + std::to_string(least) + " or more, but got " +
           name + "=" + std::to_string(value));
  return value;
}

// A number that is another one for other contents, so that a state knows what data it is of.
template <class T>
Value digest(std::span<const T> numbers) {
  return int64_t{io::crc32({reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size_bytes()})};
}

// An order as an object with at(), kept alive by the function.
template <class T>
api::Order order_of(std::shared_ptr<T> order) {
  return [order = std::move(order)](std::span<const int64_t> positions, std::span<int64_t> out) {
    order->at(positions, out);
  };
}

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

class Random final : public Sampler::Impl {
 public:
  explicit Random(int64_t n) : Impl(Ranks{}), n_(checked("n", n, 0)) {}
  const char* kind() const override { return "RandomSampler"; }
  Value facts() const override {
    return Value::Object{{"length", n_}, {"samples", n_}, {"replacement", false}, {"own_generator", true}};
  }
  int64_t length() const override { return n_; }
  bool has_epochs() const override { return false; }
  bool draws() const override { return true; }
  bool never_repeats() const override { return true; }
  api::Order order(uint64_t) const override {
    refuse(
        "the order of random_sampler() is drawn from a loader's generator; ask the loader, or take "
        "permutation_sampler()");
  }
  std::unique_ptr<api::IndexReader> read(const api::ReadFrom& from) const override {
    return api::random_reader(n_, from.position, *from.generator, from.before);
  }

 private:
  const int64_t n_;
};

// Base of those by (seed, epoch).
class ByEpoch : public Sampler::Impl {
 public:
  ByEpoch(int64_t length, uint64_t seed, Ranks of_ranks) : Impl(of_ranks), seed_(seed), length_(length) {
    api::check_ranks(of_ranks);
  }
  int64_t length() const override { return length_; }
  Value facts() const override { return Value::Object{{"length", length_}, {"seed", seed_}}; }

 protected:
  const uint64_t seed_;

 private:
  const int64_t length_;
};

class Distributed final : public ByEpoch {
 public:
  Distributed(int64_t n, Ranks of_ranks, uint64_t seed, bool shuffle)
      : ByEpoch(checked("n", n, 0), seed, of_ranks), shuffle_(shuffle) {}
  const char* kind() const override { return "DistributedSampler"; }
  Value facts() const override {
    Value facts = ByEpoch::facts();
    facts.set("shuffle", shuffle_);
    return facts;
  }
  bool moves() const override { return shuffle_; }
  api::Order order(uint64_t epoch) const override {
    if (!shuffle_) return in_order;
    return order_of(std::make_shared<samplers::RandomPermutation>(length(), seed_ + epoch));
  }

 private:
  const bool shuffle_;
};

class Permutation final : public ByEpoch {
 public:
  Permutation(int64_t n, uint64_t seed, Ranks of_ranks) : ByEpoch(checked("n", n, 0), seed, of_ranks) {
    if (n > int64_t{1} << 62) refuse("n should be at most 2**62, but got n=" + std::to_string(n));
  }
  const char* kind() const override { return "PermutationSampler"; }
  api::Order order(uint64_t epoch) const override {
    return order_of(std::make_shared<const samplers::KeyedPermutation>(length(), seed_, epoch));
  }
};

class Weighted final : public ByEpoch {
 public:
  Weighted(std::vector<double> weights, int64_t num_samples, bool replacement, uint64_t seed, Ranks of_ranks)
      : ByEpoch(num_samples, seed, of_ranks), weights_(std::move(weights)), replacement_(replacement),
        digest_(digest<double>(weights_)) {
    if (num_samples <= 0)
      refuse("num_samples should be a positive integer value, but got num_samples=" +
             std::to_string(num_samples));
    int64_t above = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!std::isfinite(weights_[i]) || weights_[i] < 0)
        refuse("weights should be finite and not negative, but weights[" + std::to_string(i) + "] is " +
               std::to_string(weights_[i]));
      above += weights_[i] > 0;
    }
    if (above == 0)
      refuse("the sum of the " + std::to_string(weights_.size()) +
             " weights is 0; at least one must be above 0");
    if (!replacement && above < num_samples)
      refuse("cannot draw num_samples=" + std::to_string(num_samples) + " without replacement from " +
             std::to_string(above) + " weights above 0; draw fewer, or with replacement");
  }
  const char* kind() const override { return "DistributedWeightedSampler"; }
  Value facts() const override {
    Value facts = ByEpoch::facts();
    facts.set("weights", digest_);
    facts.set("replacement", replacement_);
    return facts;
  }
  api::Order order(uint64_t epoch) const override {
    if (replacement_) return order_of(std::make_shared<const samplers::AliasTable>(weights_, seed_, epoch));
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

int64_t sum_of_lengths(const std::vector<int64_t>& lengths) {
  if (lengths.empty()) refuse("shard_lengths should be a sequence of integers, one at least, but is empty");
  for (size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] < 0)
      refuse("shard_lengths should be 0 or more, but shard_lengths[" + std::to_string(i) + "] is " +
             std::to_string(lengths[i]));
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

// buffer_size 0: ShardShuffle.
class Shards final : public ByEpoch {
 public:
  Shards(std::vector<int64_t> lengths, int64_t buffer_size, uint64_t seed, Ranks of_ranks)
      : ByEpoch(sum_of_lengths(lengths), seed, of_ranks), lengths_(std::move(lengths)),
        buffer_size_(buffer_size) {}
  const char* kind() const override { return buffer_size_ > 0 ? "TwoTierShuffle" : "ShardShuffle"; }
  Value facts() const override {
    Value facts = ByEpoch::facts();
    facts.set("shards", digest<int64_t>(lengths_));
    if (buffer_size_ > 0) facts.set("buffer_size", buffer_size_);
    return facts;
  }
  api::Order order(uint64_t epoch) const override {
    api::Order shards = order_of(std::make_shared<const samplers::ShardOrder>(lengths_, seed_, epoch));
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
Sampler random_sampler(int64_t n) { return make<Random>(n); }
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
