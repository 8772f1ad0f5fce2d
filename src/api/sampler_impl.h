// Sampler::Impl and BatchSampler::Impl: what a Loader and its states need of a sampler.
//
// kind() and facts() are the names and the entries of the states of millrace.samplers in Python: a state of
// another kind, or of other facts, is refused. Immutable; any thread. Readers are made for each epoch and
// belong to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/index_reader.h"
#include "io/zlib_bytes.h"
#include "json/json_value.h"
#include "millrace/samplers.h"

namespace millrace::api {

// Where the reading of an epoch begins.
struct ReadFrom {
  uint64_t epoch = 0;
  int64_t position = 0;
  samplers::TorchGenerator* generator = nullptr;  // the loader's, for samplers that draw from it
  std::string before{};                           // its state before the draw, of an epoch that is resumed
};

// Lists of indices of one epoch. One thread at a time.
class ListReader {
 public:
  virtual ~ListReader() = default;
  virtual bool next(std::vector<int64_t>& list) = 0;  // false at the end
  virtual int64_t position() const = 0;               // as IndexReader
  virtual json::Value origin() const = 0;
};

}  // namespace millrace::api

namespace millrace {

class MILLRACE_PRIVATE Sampler::Impl {
 public:
  explicit Impl(Ranks of_ranks) : ranks(of_ranks) {}
  virtual ~Impl() = default;

  virtual const char* kind() const = 0;
  virtual json::Value facts() const = 0;                // "length" and others
  virtual int64_t length() const = 0;                   // of the global order
  virtual bool has_epochs() const { return true; }      // its states say which epoch they are of
  virtual bool moves() const { return has_epochs(); }   // its order is another one in each epoch
  virtual bool draws() const { return false; }          // from the loader's generator
  virtual bool never_repeats() const { return false; }  // an index comes once in an epoch at most
  virtual json::Value entries() const { return {}; }    // that its states have beside the facts; none: null
  // StateError for a state with these facts that it cannot go on from.
  virtual void check(const json::Value&) const {}
  virtual api::Order order(uint64_t epoch) const = 0;  // of those that do not draw
  virtual std::unique_ptr<api::IndexReader> read(const api::ReadFrom& from) const;

  int64_t size() const { return api::steps_left(length(), 0, ranks.count, ranks.drop_last); }

  const Ranks ranks;
};

class MILLRACE_PRIVATE BatchSampler::Impl {
 public:
  virtual ~Impl() = default;

  virtual int64_t size() const = 0;
  // What a state's fingerprint calls it: "BatchSampler of RandomSampler", say.
  virtual std::string name() const = 0;
  // The state of a reader at a position, as Python's iterator writes it.
  virtual json::Value state_at(uint64_t epoch, int64_t position, const json::Value& origin) const = 0;
  // Takes such a state apart; StateError for that of another sampler.
  virtual void check(const json::Value& state) const = 0;
  virtual std::unique_ptr<api::ListReader> read(const api::ReadFrom& from) const = 0;

  virtual const Ranks& ranks() const = 0;
  virtual bool has_epochs() const = 0;
  virtual bool moves() const = 0;
  virtual bool draws() const = 0;
  virtual bool never_repeats() const = 0;
};

}  // namespace millrace

namespace millrace::api {

// The entries of a sampler's state that do not depend on the position.
json::Value state_head(const char* kind, uint64_t epoch, const json::Value& facts);
// StateError unless it is a state of this kind with these facts.
void check_state(const json::Value& state, const char* kind, const json::Value& facts, bool draws);

// Of an order: a position beyond its end by a step of all ranks is still a number.
inline constexpr int64_t kMostSamples = int64_t{1} << 62;

// Each: Error(invalid_argument).
void check_ranks(const Ranks& ranks);
int64_t checked(const char* name, int64_t value, int64_t least);  // to kMostSamples
int64_t sum_of(const std::string& name, std::span<const int64_t> lengths);
int64_t check_weights(std::span<const double> weights, int64_t num_samples);  // how many are above 0

// A number that is another one for other contents, so that a state knows what data it is of.
template <class T>
json::Value digest(std::span<const T> numbers) {
  return int64_t{io::crc32({reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size_bytes()})};
}

// An order as an object with at(), kept alive by the function.
template <class T>
Order order_of(std::shared_ptr<T> order) {
  return [order = std::move(order)](std::span<const int64_t> positions, std::span<int64_t> out) {
    order->at(positions, out);
  };
}

// Base of those by (seed, epoch).
class MILLRACE_PRIVATE ByEpoch : public Sampler::Impl {
 public:
  ByEpoch(int64_t length, uint64_t seed, Ranks of_ranks) : Impl(of_ranks), seed_(seed), length_(length) {
    check_ranks(of_ranks);
  }
  int64_t length() const override { return length_; }
  json::Value facts() const override { return json::Value::Object{{"length", length_}, {"seed", seed_}}; }

 protected:
  const uint64_t seed_;

 private:
  const int64_t length_;
};

}  // namespace millrace::api
