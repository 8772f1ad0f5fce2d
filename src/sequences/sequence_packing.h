// SequencePacking: which tokens of which documents lie in which pack of `length` tokens. PackOrder: the packs
// of one epoch.
//
// Strategies: best_fit puts the documents of a window, long ones first, each into the pack in which it leaves
// the least room ("best fit decreasing", Johnson, "Near-optimal bin packing algorithms", 1973; packs with
// room stay open for the next windows); first_fit each into the oldest pack that has room, as they come;
// concatenate puts them one after another, cut where a pack ends. Some 300 ns per document
// (benchmarks/packing.py), independent of its length.
//
// A shuffled packing is a function of the seed, and how many packs there are and how full each is does not
// depend on the epoch: from one to the next, documents of equal length change places, and the packs change
// their order. So an epoch costs nothing to begin. 8 bytes per document and 24 per piece. Both classes are
// immutable; any thread. A PackOrder borrows its packing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "samplers/keyed_permutation.h"
#include "samplers/segments.h"

namespace millrace::sequences {

// Tokens begin .. begin + tokens - 1 of a document.
struct PackPiece {
  int64_t document = 0, begin = 0, tokens = 0;

  bool operator==(const PackPiece&) const = default;
};

enum class PackStrategy : uint8_t { best_fit, first_fit, concatenate };
enum class TooLong : uint8_t {
  split,
  cut,
  skip
};  // of documents longer than a pack: into several pieces; the rest, or all, left out

struct PackingOptions {
  int64_t length = 0;  // of a pack; 1 to 2^24
  PackStrategy strategy = PackStrategy::best_fit;
  int64_t window = 1 << 16;  // documents that best_fit puts in order together
  int64_t most_pieces = 0;   // of a pack; 0: any number
  TooLong too_long = TooLong::split;
  std::optional<uint64_t> seed{};  // none: documents in their order, packs as they were begun
};

struct PackingReport {
  int64_t documents = 0, empty = 0, skipped = 0;  // of them packed; without tokens; too long, left out
  int64_t cut = 0, cut_tokens = 0;  // of the packed, those cut at their end; how many tokens were left out
  int64_t split = 0;                // of the packed, those in several pieces
  int64_t tokens = 0, pieces = 0, packs = 0;  // in the packs
};

class SequencePacking {
 public:
  // lengths: tokens of each document. Throws Error(invalid_argument) for a negative one, or for options
  // outside their ranges.
  SequencePacking(std::span<const int64_t> lengths, const PackingOptions& options);

  int64_t size() const { return static_cast<int64_t>(ends_.size()) - 1; }
  const PackingOptions& options() const { return options_; }
  const PackingReport& report() const { return report_; }

 private:
  friend class PackOrder;
  class Plan;

  int64_t packed_length(int64_t length) const;  // of a document of that length
  void choose(std::span<const int64_t> lengths);
  void order_by_length(std::span<const int64_t> lengths);

  PackingOptions options_;
  PackingReport report_;
  std::vector<int64_t>
      documents_;  // packed ones, by length when shuffled; pieces name them by their place here
  std::vector<int64_t>
      groups_;  // when shuffled: how many documents have the shortest length, the next one, ...
  std::vector<int64_t> ends_;  // of each pack's pieces, after a 0
  std::vector<PackPiece> pieces_;
};

class PackOrder {
 public:
  PackOrder(const SequencePacking& packing, uint64_t epoch);

  // Appends the pieces of packs[0], packs[1], ... to `pieces`, and after each pack the number of pieces so
  // far to `ends`. Throws Error(out_of_range) for a pack that is not there.
  void at(std::span<const int64_t> packs, std::vector<PackPiece>& pieces, std::vector<int64_t>& ends) const;

  int64_t size() const { return packing_.size(); }

 private:
  const SequencePacking& packing_;
  std::optional<samplers::KeyedPermutation> packs_;
  std::optional<samplers::SegmentShuffle> documents_;
};

}  // namespace millrace::sequences
