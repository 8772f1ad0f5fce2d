#include "sequences/sequence_packing.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "millrace/error.h"
#include "sequences/open_packs.h"

namespace millrace::sequences {
namespace {

constexpr uint64_t kVisits = uint64_t{1} << 60,
                   kPacks = kVisits + 1;  // streams of the seed; those of lengths begin at 1
constexpr int64_t kLongest = 1 << 24;     // OpenPacks has 8 bytes for each token of a pack
constexpr size_t kDigits = 11;            // bits of a round of the sort

struct Keyed {
  int64_t key, value;
};

// By rising key, equal ones as they were. Ten times faster than std::stable_sort where keys have two digits.
void radix_sort(std::vector<Keyed>& entries) {
  int64_t most = 0;
  for (const Keyed& entry : entries) most = std::max(most, entry.key);
  std::vector<Keyed> other(entries.size());
  for (size_t shift = 0; shift < 63 && most >> shift != 0; shift += kDigits) {
    std::array<size_t, size_t{1} << kDigits> starts{};
    const auto digit = [&](const Keyed& entry) {
      return static_cast<size_t>(entry.key >> shift) & (starts.size() - 1);
    };
    for (const Keyed& entry : entries) ++starts[digit(entry)];
    std::exclusive_scan(starts.begin(), starts.end(), starts.begin(), size_t{0});
    for (const Keyed& entry : entries) other[starts[digit(entry)]++] = entry;
    entries.swap(other);
  }
}

void check(const PackingOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorKind::invalid_argument, what); };
  if (options.length < 1 || options.length > kLongest)
    refuse("a pack has 1 to 2^24 tokens, not " + std::to_string(options.length));
  if (options.window < 1) refuse("a window has 1 document or more, not " + std::to_string(options.window));
  if (options.most_pieces < 0)
    refuse("a pack has 1 document or more at most, or any number (0), not " +
           std::to_string(options.most_pieces));
}

}  // namespace

// Gives the pieces of documents to packs, in the order in which they are visited.
class SequencePacking::Plan {
 public:
  explicit Plan(const PackingOptions& options)
      : options_(options), open_(options.strategy == PackStrategy::best_fit ? options.length : 1) {}

  // Documents of a window, `value` their places in documents_.
  void add(std::vector<Keyed>& window) {
    const size_t base = pieces_.size();
    for (const auto& [length, place] : window) {
      if (options_.strategy == PackStrategy::concatenate) {
        run_on(place, length);
        continue;
      }
      int64_t begin = 0;
      for (; length - begin > options_.length; begin += options_.length)
        begun({place, begin, options_.length});
      pieces_.push_back({place, begin, length - begin});
      packs_.push_back(-1);
    }
    if (options_.strategy == PackStrategy::first_fit) fit_first(base);
    if (options_.strategy == PackStrategy::best_fit) fit_best(base);
  }

  // The pieces by pack, those of one as they were visited.
  void finish(std::vector<int64_t>& ends, std::vector<PackPiece>& pieces) const {
    ends.assign(static_cast<size_t>(count_) + 1, 0);
    for (const int64_t pack : packs_) ++ends[static_cast<size_t>(pack) + 1];
    std::inclusive_scan(ends.begin(), ends.end(), ends.begin());
    std::vector<int64_t> next(ends.begin(), ends.end() - 1);
    pieces.resize(pieces_.size());
    for (size_t i = 0; i < pieces_.size(); ++i)
      pieces[static_cast<size_t>(next[static_cast<size_t>(packs_[i])]++)] = pieces_[i];
  }

 private:
  void begun(const PackPiece& piece) {  // a pack of its own
    pieces_.push_back(piece);
    packs_.push_back(count_);
    begin_pack(0);
  }

  int64_t begin_pack(int64_t room) {
    if (options_.most_pieces > 0) counts_.push_back(0);
    if (options_.strategy == PackStrategy::first_fit) oldest_.add(room);
    return count_++;
  }

  // Whether the pack may have more pieces after the one that it is given now.
  bool stays_open(int64_t pack) {
    return options_.most_pieces == 0 || ++counts_[static_cast<size_t>(pack)] < options_.most_pieces;
  }

  void run_on(int64_t place, int64_t length) {
    for (int64_t begin = 0; begin < length;) {
      if (room_ == 0) {
        last_ = begin_pack(0);
        room_ = options_.length;
      }
      const int64_t tokens = std::min(room_, length - begin);
      pieces_.push_back({place, begin, tokens});
      packs_.push_back(last_);
      begin += tokens;
      room_ = stays_open(last_) ? room_ - tokens : 0;
    }
  }

  void fit_first(size_t base) {
    for (size_t i = base; i < pieces_.size(); ++i) {
      if (packs_[i] >= 0) continue;
      const int64_t tokens = pieces_[i].tokens;
      int64_t pack = oldest_.find(tokens);
      if (pack < 0) pack = begin_pack(options_.length);
      packs_[i] = pack;
      oldest_.set(pack, stays_open(pack) ? oldest_.room(pack) - tokens : 0);
    }
  }

  void fit_best(size_t base) {
    by_length_.clear();
    for (size_t i = base; i < pieces_.size(); ++i)
      if (packs_[i] < 0) by_length_.push_back({options_.length - pieces_[i].tokens, static_cast<int64_t>(i)});
    radix_sort(by_length_);
    for (const auto& [unused, piece] : by_length_) {
      const int64_t tokens = options_.length - unused;
      auto [pack, room] = open_.take(tokens);
      if (pack < 0) {
        pack = begin_pack(0);
        room = options_.length;
      }
      packs_[static_cast<size_t>(piece)] = pack;
      if (stays_open(pack) && room > tokens) open_.put(pack, room - tokens);
    }
  }

  const PackingOptions& options_;
  std::vector<PackPiece> pieces_;  // in the order of visits
  std::vector<int64_t> packs_;     // by piece
  std::vector<int64_t> counts_;    // pieces by pack, where that is limited
  int64_t count_ = 0;              // packs
  OpenPacks open_;
  FirstFit oldest_;
  int64_t last_ = 0, room_ = 0;  // of concatenation
  std::vector<Keyed> by_length_;
};

SequencePacking::SequencePacking(std::span<const int64_t> lengths, const PackingOptions& options)
    : options_(options) {
  check(options_);
  choose(lengths);
  if (options_.seed) order_by_length(lengths);
  const auto packed = [&](int64_t place) {
    return packed_length(lengths[static_cast<size_t>(documents_[static_cast<size_t>(place)])]);
  };
  const auto count = static_cast<int64_t>(documents_.size());
  const samplers::KeyedPermutation visits(options_.seed ? count : 0, options_.seed.value_or(0), 0, kVisits);
  Plan plan(options_);
  std::vector<Keyed> window;
  std::vector<int64_t> places;
  for (int64_t begin = 0; begin < count; begin += options_.window) {
    places.resize(static_cast<size_t>(std::min(options_.window, count - begin)));
    std::iota(places.begin(), places.end(), begin);
    if (options_.seed) visits.at(places, places);
    window.clear();
    for (const int64_t place : places) window.push_back({packed(place), place});
    plan.add(window);
  }
  plan.finish(ends_, pieces_);
  report_.packs = size();
  report_.pieces = static_cast<int64_t>(pieces_.size());
  for (const PackPiece& piece : pieces_) {
    report_.tokens += piece.tokens;
    report_.split += piece.begin == 0 && piece.tokens < packed(piece.document);
  }
}

int64_t SequencePacking::packed_length(int64_t length) const {
  return options_.too_long == TooLong::split ? length : std::min(length, options_.length);
}

void SequencePacking::choose(std::span<const int64_t> lengths) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t length = lengths[i];
    if (length < 0 || length > int64_t{1} << 56)
      throw Error(ErrorKind::invalid_argument, "a document has 0 or more tokens, but document " +
                                                   std::to_string(i) + " has " + std::to_string(length) +
                                                   "; check the offsets");
    const bool too_long = length > options_.length;
    if (length == 0) {
      ++report_.empty;
    } else if (too_long && options_.too_long == TooLong::skip) {
      ++report_.skipped;
    } else {
      documents_.push_back(static_cast<int64_t>(i));
      if (too_long && options_.too_long == TooLong::cut) {
        ++report_.cut;
        report_.cut_tokens += length - options_.length;
      }
    }
  }
  report_.documents = static_cast<int64_t>(documents_.size());
}

void SequencePacking::order_by_length(std::span<const int64_t> lengths) {
  std::vector<Keyed> entries;
  entries.reserve(documents_.size());
  for (const int64_t document : documents_)
    entries.push_back({packed_length(lengths[static_cast<size_t>(document)]), document});
  radix_sort(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    documents_[i] = entries[i].value;
    if (i == 0 || entries[i].key != entries[i - 1].key) groups_.push_back(0);
    ++groups_.back();
  }
}

PackOrder::PackOrder(const SequencePacking& packing, uint64_t epoch) : packing_(packing) {
  if (!packing.options_.seed) return;
  packs_.emplace(packing.size(), *packing.options_.seed, epoch, kPacks);
  documents_.emplace(packing.groups_, *packing.options_.seed, epoch);
}

void PackOrder::at(std::span<const int64_t> packs, std::vector<PackPiece>& pieces,
                   std::vector<int64_t>& ends) const {
  const size_t first = pieces.size();
  for (const int64_t number : packs) {
    if (number < 0 || number >= size())
      throw Error(ErrorKind::out_of_range,
                  "there are " + std::to_string(size()) + " packs, and no pack " + std::to_string(number));
    const auto pack = static_cast<size_t>(packs_ ? packs_->at(number) : number);
    const auto* const all = packing_.pieces_.data();
    pieces.insert(pieces.end(), all + packing_.ends_[pack], all + packing_.ends_[pack + 1]);
    ends.push_back(static_cast<int64_t>(pieces.size()));
  }
  std::vector<int64_t> places;
  places.reserve(pieces.size() - first);
  for (size_t i = first; i < pieces.size(); ++i) places.push_back(pieces[i].document);
  if (documents_) documents_->at(places, places);
  for (size_t i = first; i < pieces.size(); ++i)
    pieces[i].document = packing_.documents_[static_cast<size_t>(places[i - first])];
}

}  // namespace millrace::sequences
