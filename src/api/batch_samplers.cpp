// The samplers of whole batches.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "api/refuse.h"
#include "api/sampler_impl.h"
#include "io/zlib_bytes.h"
#include "millrace/error.h"
#include "millrace/state.h"
#include "samplers/mixture.h"

namespace millrace {
namespace {

using api::refuse;
using json::Value;

class ListsOf final : public api::ListReader {
 public:
  ListsOf(std::unique_ptr<api::IndexReader> indices, int64_t size, bool drop_last)
      : indices_(std::move(indices)), size_(size), drop_last_(drop_last) {}
  bool next(std::vector<int64_t>& list) override {
    list = indices_->read(size_);
    return !list.empty() && (!drop_last_ || std::ssize(list) == size_);
  }
  int64_t position() const override { return indices_->position(); }
  Value origin() const override { return indices_->origin(); }

 private:
  const std::unique_ptr<api::IndexReader> indices_;
  const int64_t size_;
  const bool drop_last_;
};

class BatchesOf final : public BatchSampler::Impl {
 public:
  BatchesOf(Sampler sampler, int64_t size, bool drop_last)
      : sampler_(std::move(sampler)), size_(api::checked("batch_size", size, 1)), drop_last_(drop_last) {
    if (!sampler_.impl())
      refuse("batches_of() was given an empty Sampler; make one by sequential_sampler() or its like");
  }
  int64_t size() const override { return api::steps_left(inner().size(), 0, size_, drop_last_); }
  std::string name() const override { return std::string("BatchSampler of ") + inner().kind(); }
  Value state_at(uint64_t epoch, int64_t position, const Value& origin) const override {
    Value sampler = api::state_head(inner().kind(), epoch, inner().facts());
    sampler.set("position", position);
    if (const Value entries = inner().entries(); entries.object() != nullptr)
      for (const auto& [key, value] : *entries.object()) sampler.set(key, value);
    if (origin.object() != nullptr)
      for (const auto& [key, value] : *origin.object()) sampler.set(key, value);
    // Of torch's own BatchSampler, which counts no epochs.
    Value state = api::state_head("BatchSampler", 0, Value::Object{{"length", inner().length()}});
    state.set("position", position);
    state.set("sampler", std::move(sampler));
    return state;
  }
  void check(const Value& state) const override {
    api::check_state(state, "BatchSampler", Value::Object{{"length", inner().length()}}, false);
    const Value* const sampler = state.find("sampler");
    if (sampler == nullptr)
      throw StateError("the state of a BatchSampler does not say where its sampler was: 'sampler'");
    api::check_state(*sampler, inner().kind(), inner().facts(), inner().draws());
    inner().check(*sampler);
  }
  std::unique_ptr<api::ListReader> read(const api::ReadFrom& from) const override {
    return std::make_unique<ListsOf>(inner().read(from), size_, drop_last_);
  }
  const Ranks& ranks() const override { return inner().ranks; }
  bool has_epochs() const override { return inner().has_epochs(); }
  bool moves() const override { return inner().moves(); }
  bool draws() const override { return inner().draws(); }
  bool never_repeats() const override { return inner().never_repeats(); }

 private:
  const Sampler::Impl& inner() const { return *sampler_.impl(); }
  const Sampler sampler_;
  const int64_t size_;
  const bool drop_last_;
};

// Which class each sample is of, as numpy.unique() counts classes.
struct Classes {
  explicit Classes(std::span<const int64_t> labels) {
    if (labels.empty()) refuse("labels should be one label per sample, and are none");
    std::map<int64_t, int64_t> numbers;
    for (const int64_t label : labels) numbers[label] = 0;
    int64_t next = 0;
    for (auto& [label, number] : numbers) number = next++;
    counts.resize(numbers.size());
    for (const int64_t label : labels) {
      of_sample.push_back(numbers[label]);
      ++counts[static_cast<size_t>(of_sample.back())];
    }
  }
  std::vector<int64_t> of_sample, counts;
};

class Stratified final : public BatchSampler::Impl {
 public:
  Stratified(std::span<const int64_t> labels, int64_t batch_size, ClassShares shares, uint64_t seed,
             Ranks ranks)
      : size_(api::checked("batch_size", batch_size, 1)), shares_(shares), seed_(seed), ranks_(ranks) {
    api::check_ranks(ranks);
    if (size_ > api::kMostSamples / ranks.count)
      refuse("batch_size times the number of ranks should be at most 2**62, but got batch_size=" +
             std::to_string(size_) + " and " + std::to_string(ranks.count) + " ranks");
    Classes classes(labels);
    digest_ = io::crc32({reinterpret_cast<const uint8_t*>(classes.of_sample.data()), labels.size_bytes()});
    counts_ = std::move(classes.counts);
    members_.resize(labels.size());
    for (size_t i = 0; i < members_.size(); ++i) members_[i] = static_cast<int64_t>(i);
    std::stable_sort(members_.begin(), members_.end(), [&](int64_t a, int64_t b) {
      return classes.of_sample[static_cast<size_t>(a)] < classes.of_sample[static_cast<size_t>(b)];
    });
  }

  int64_t length() const { return std::ssize(members_); }
  int64_t size() const override {
    return api::steps_left(length(), 0, size_ * ranks_.count, ranks_.drop_last);
  }
  std::string name() const override { return kKind; }
  Value state_at(uint64_t epoch, int64_t position, const Value&) const override {
    Value state = api::state_head(kKind, epoch, facts());
    state.set("position", position);
    return state;
  }
  void check(const Value& state) const override { api::check_state(state, kKind, facts(), false); }
  std::unique_ptr<api::ListReader> read(const api::ReadFrom& from) const override {
    return std::make_unique<Reader>(*this, from);
  }
  const Ranks& ranks() const override { return ranks_; }
  bool has_epochs() const override { return true; }
  bool moves() const override { return true; }
  bool draws() const override { return false; }
  bool never_repeats() const override { return false; }

 private:
  static constexpr const char* kKind = "StratifiedBatchSampler";

  Value facts() const {
    return Value::Object{{"length", length()},
                         {"seed", seed_},
                         {"mode", shares_ == ClassShares::balanced ? "balanced" : "proportional"},
                         {"labels", int64_t{digest_}}};
  }

  class Reader final : public api::ListReader {
   public:
    Reader(const Stratified& of, const api::ReadFrom& from)
        : of_(of), order_(of.counts_, of.weights(), of.seed_, from.epoch, true), start_(from.position),
          entries_(of.size_ * of.ranks_.count),
          steps_(api::steps_left(of.length(), start_, entries_, of.ranks_.drop_last)) {}

    bool next(std::vector<int64_t>& list) override {
      if (step_ >= steps_) return false;
      const int64_t first = start_ + step_ * entries_, left = of_.length() - first;
      // The last samples are shared evenly when they do not fill a batch on every rank.
      const int64_t rows = left >= entries_ ? of_.size_ : (left + of_.ranks_.count - 1) / of_.ranks_.count;
      std::vector<int64_t> positions(static_cast<size_t>(rows));
      for (int64_t i = 0; i < rows; ++i)
        positions[static_cast<size_t>(i)] = (first + of_.ranks_.rank * rows + i) % of_.length();
      list.resize(positions.size());
      order_.at(positions, list);
      for (int64_t& index : list) index = of_.members_[static_cast<size_t>(index)];
      ++step_;
      return true;
    }
    int64_t position() const override {
      return std::max(std::min(start_ + step_ * entries_, of_.length()), start_);
    }
    Value origin() const override { return {}; }

   private:
    const Stratified& of_;
    samplers::Mixture order_;
    const int64_t start_, entries_, steps_;
    int64_t step_ = 0;
  };

  std::vector<uint64_t> weights() const {
    if (shares_ == ClassShares::balanced) return std::vector<uint64_t>(counts_.size(), 1);
    return {counts_.begin(), counts_.end()};
  }

  const int64_t size_;
  const ClassShares shares_;
  const uint64_t seed_;
  const Ranks ranks_;
  uint32_t digest_ = 0;
  std::vector<int64_t> counts_, members_;  // of each class; samples by class
};

}  // namespace

int64_t BatchSampler::size() const {
  if (!impl_) refuse("this BatchSampler is empty; make one by batches_of() or stratified_batches()");
  return impl_->size();
}

BatchSampler batches_of(Sampler sampler, int64_t batch_size, bool drop_last) {
  return BatchSampler(std::make_shared<const BatchesOf>(std::move(sampler), batch_size, drop_last));
}

BatchSampler stratified_batches(std::span<const int64_t> labels, int64_t batch_size, uint64_t seed,
                                Ranks ranks, ClassShares shares) {
  return BatchSampler(std::make_shared<const Stratified>(labels, batch_size, shares, seed, ranks));
}

std::vector<double> weights_from_labels(std::span<const int64_t> labels, ClassWeights mode, double beta) {
  const Classes classes(labels);
  if (mode == ClassWeights::effective && !(beta >= 0 && beta < 1))
    refuse("beta should be at least 0 and below 1, but got beta=" + std::to_string(beta));
  std::vector<double> of_class, weights;
  for (const int64_t count : classes.counts) {
    const auto n = static_cast<double>(count);
    of_class.push_back(mode == ClassWeights::inverse ? 1.0 / n
                       : mode == ClassWeights::sqrt  ? 1.0 / std::sqrt(n)
                       : beta == 0                   ? 1.0
                                                     : (1 - beta) / -std::expm1(n * std::log(beta)));
  }
  for (const int64_t number : classes.of_sample) weights.push_back(of_class[static_cast<size_t>(number)]);
  return weights;
}

}  // namespace millrace
