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

// Base of those that draw.
class DrawingReader : public IndexReader {
 public:
  DrawingReader(int64_t start, samplers::TorchGenerator& generator, std::string before)
      : generator_(generator), position_(start), before_(std::move(before)) {}
  int64_t position() const override { return position_; }
  json::Value origin() const override {
    return before_.empty() ? json::Value{} : json::Value(json::Value::Object{{"generator", before_}});
  }

 protected:
  // True once, with the generator where the epoch's draws begin.
  bool begins() {
    if (begun_) return false;
    begun_ = true;
    if (before_.empty())
      before_ = packed_generator(generator_);
    else
      put_back(generator_, before_);
    return true;
  }

  samplers::TorchGenerator& generator_;
  int64_t position_;

 private:
  std::string before_;
  bool begun_ = false;
};

class RandomReader final : public DrawingReader {
 public:
  RandomReader(int64_t n, int64_t length, int64_t start, samplers::TorchGenerator& generator,
               std::string before)
      : DrawingReader(start, generator, std::move(before)), n_(n), length_(length) {}

  std::vector<int64_t> read(int64_t count) override {
    if (count <= 0) return {};
    if (begins()) begin();
    const int64_t given = std::clamp<int64_t>(length_ - position_, 0, count);
    std::vector<int64_t> indices(static_cast<size_t>(given));
    if (computed_) {
      std::vector<int64_t> positions(indices.size());
      std::iota(positions.begin(), positions.end(), position_);
      computed_->at(positions, indices);
    } else if (given > 0) {
      drawn_->read(position_, indices);
    }
    position_ += given;
    if (n_ > 0 && !computed_) pass_rounds(given < count ? length_ / n_ + 1 : (position_ + n_ - 1) / n_);
    if (given < count) drawn_.reset();
    return indices;
  }

 private:
  void begin() {
    if (n_ == length_ && n_ > kComputedAbove)
      computed_.emplace(n_, static_cast<uint64_t>(generator_.base_seed()), 0);
    else
      drawn_.emplace(n_, generator_.engine());
  }
  // Moves the generator past the draws of so many permutations.
  void pass_rounds(int64_t rounds) {
    for (; rounds_ < rounds; ++rounds_) generator_.discard(samplers::RandomPermutation::words(n_));
  }

  const int64_t n_, length_;
  int64_t rounds_ = 0;
  std::optional<samplers::RandomPermutation> drawn_;
  std::optional<samplers::KeyedPermutation> computed_;
};

class BlockReader final : public DrawingReader {
 public:
  BlockReader(DrawBlock draw, int64_t start, samplers::TorchGenerator& generator, std::string before)
      : DrawingReader(start, generator, std::move(before)), draw_(std::move(draw)) {}

  std::vector<int64_t> read(int64_t count) override {
    std::vector<int64_t> indices;
    if (count <= 0) return indices;
    if (begins()) {
      for (int64_t skip = position_; skip > 0 && has_more();) {
        const int64_t passed = std::min(skip, std::ssize(block_) - next_);
        next_ += passed;
        skip -= passed;
      }
    }
    while (std::ssize(indices) < count && has_more()) {
      const int64_t taken = std::min(count - std::ssize(indices), std::ssize(block_) - next_);
      indices.insert(indices.end(), block_.begin() + next_, block_.begin() + next_ + taken);
      next_ += taken;
    }
    position_ += std::ssize(indices);
    return indices;
  }

 private:
  bool has_more() {
    if (next_ == std::ssize(block_) && !ended_) {
      block_ = draw_(generator_);
      next_ = 0;
      ended_ = block_.empty();
    }
    return !ended_;
  }

  const DrawBlock draw_;
  std::vector<int64_t> block_;
  int64_t next_ = 0;  // of it
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<IndexReader> order_reader(std::function<Order()> begin, int64_t length, int64_t start,
                                          int64_t steps, int rank, int count) {
  return std::make_unique<OrderReader>(std::move(begin), length, start, steps, rank, count);
}

std::unique_ptr<IndexReader> random_reader(int64_t n, int64_t length, int64_t start,
                                           samplers::TorchGenerator& generator, std::string before) {
  return std::make_unique<RandomReader>(n, length, start, generator, std::move(before));
}

std::unique_ptr<IndexReader> block_reader(DrawBlock draw, int64_t start, samplers::TorchGenerator& generator,
                                          std::string before) {
  return std::make_unique<BlockReader>(std::move(draw), start, generator, std::move(before));
}

int64_t steps_left(int64_t length, int64_t start, int64_t entries, bool drop_last) {
  const int64_t left = std::max<int64_t>(length - start, 0);
  return drop_last ? left / entries : left / entries + (left % entries != 0);
}

}  // namespace millrace::api
