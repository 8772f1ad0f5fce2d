#include "api/index_reader.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "api/state_text.h"
#include "samplers/keyed_permutation.h"
#include "samplers/random_permutation.h"

namespace millrace::api {
namespace {

constexpr int64_t kComputedAbove = int64_t{1} << 31;

class OrderReader final : public IndexReader {
 public:
  OrderReader(std::function<Order()> begin, int64_t length, int64_t start, int64_t steps, int rank, int count)
      : begin_(std::move(begin)), length_(length), start_(start), steps_(steps), rank_(rank), count_(count) {}

  std::vector<int64_t> read(int64_t count) override {
    count = std::clamp<int64_t>(count, 0, steps_ - taken_);
    if (count == 0) return {};
    if (begin_) order_ = std::exchange(begin_, {})();
    std::vector<int64_t> positions(static_cast<size_t>(count)), indices(positions.size());
    int64_t at = start_ + rank_ + taken_ * count_;
    for (int64_t& position : positions) {
      position = at % length_;
      at += count_;
    }
    order_(positions, indices);
    taken_ += count;
    return indices;
  }
  int64_t position() const override { return start_ + taken_ * count_; }

 private:
  std::function<Order()> begin_;  // empty once it was called
  Order order_;
  const int64_t length_, start_, steps_;
  const int rank_, count_;
  int64_t taken_ = 0;
};

class RandomReader final : public IndexReader {
 public:
  RandomReader(int64_t n, int64_t start, samplers::TorchGenerator& generator, std::string before)
      : generator_(generator), n_(n), position_(start), before_(std::move(before)) {}

  std::vector<int64_t> read(int64_t count) override {
    if (count <= 0) return {};
    if (!begun_) begin();
    const int64_t given = std::clamp<int64_t>(n_ - position_, 0, count);
    std::vector<int64_t> indices(static_cast<size_t>(given));
    if (computed_) {
      std::vector<int64_t> positions(indices.size());
      std::iota(positions.begin(), positions.end(), position_);
      computed_->at(positions, indices);
    } else if (given > 0) {
      drawn_->read(position_, indices);
    }
    position_ += given;
    if (given < count && !ended_) {
      ended_ = true;
      drawn_.reset();
      if (!computed_) generator_.discard(samplers::RandomPermutation::words(n_));
    }
    return indices;
  }
  int64_t position() const override { return position_; }
  json::Value origin() const override {
    return before_.empty() ? json::Value{} : json::Value(json::Value::Object{{"generator", before_}});
  }

 private:
  void begin() {
    begun_ = true;
    if (before_.empty())
      before_ = packed_generator(generator_);
    else
      put_back(generator_, before_);
    if (n_ > kComputedAbove) {
      computed_.emplace(n_, static_cast<uint64_t>(generator_.base_seed()), 0);
      return;
    }
    drawn_.emplace(n_, generator_.engine());
    generator_.discard(samplers::RandomPermutation::words(n_));
  }

  samplers::TorchGenerator& generator_;
  const int64_t n_;
  int64_t position_;
  std::string before_;
  bool begun_ = false, ended_ = false;
  std::optional<samplers::RandomPermutation> drawn_;
  std::optional<samplers::KeyedPermutation> computed_;
};

}  // namespace

std::unique_ptr<IndexReader> order_reader(std::function<Order()> begin, int64_t length, int64_t start,
                                          int64_t steps, int rank, int count) {
  return std::make_unique<OrderReader>(std::move(begin), length, start, steps, rank, count);
}

std::unique_ptr<IndexReader> random_reader(int64_t n, int64_t start, samplers::TorchGenerator& generator,
                                           std::string before) {
  return std::make_unique<RandomReader>(n, start, generator, std::move(before));
}

int64_t steps_left(int64_t length, int64_t start, int64_t entries, bool drop_last) {
  const int64_t left = std::max<int64_t>(length - start, 0);
  return drop_last ? left / entries : (left + entries - 1) / entries;
}

}  // namespace millrace::api
