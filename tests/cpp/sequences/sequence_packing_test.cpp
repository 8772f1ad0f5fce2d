// SequencePacking: every token once, in packs that are full; the same packs however they are asked for.
#include "sequences/sequence_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "millrace/error.h"
#include "sequences/open_packs.h"

namespace millrace::sequences {
namespace {

using Numbers = std::vector<int64_t>;
using Packs = std::vector<std::vector<PackPiece>>;

Packs packs_of(const SequencePacking& packing, uint64_t epoch = 0) {
  const PackOrder order(packing, epoch);
  Packs packs;
  for (int64_t i = 0; i < packing.size(); ++i) {
    Numbers ends;
    packs.emplace_back();
    order.at(Numbers{i}, packs.back(), ends);
    EXPECT_EQ(ends, Numbers{static_cast<int64_t>(packs.back().size())});
  }
  return packs;
}

Numbers some_lengths(size_t count, uint32_t seed, double mean = 5.5) {
  std::mt19937 engine(seed);
  std::lognormal_distribution<double> length(mean, 1.2);
  Numbers lengths(count);
  for (int64_t& each : lengths) each = static_cast<int64_t>(length(engine));
  return lengths;
}

// Every token of every packed document exactly once, no pack above its length or number of pieces.
void check(const Numbers& lengths, const PackingOptions& options, const Packs& packs) {
  std::map<int64_t, std::map<int64_t, int64_t>> covered;  // document -> begin -> tokens
  for (const auto& pack : packs) {
    int64_t tokens = 0;
    ASSERT_FALSE(pack.empty());
    if (options.most_pieces > 0) {
      ASSERT_LE(static_cast<int64_t>(pack.size()), options.most_pieces);
    }
    for (const PackPiece& piece : pack) {
      ASSERT_GT(piece.tokens, 0);
      ASSERT_TRUE(covered[piece.document].emplace(piece.begin, piece.tokens).second);
      tokens += piece.tokens;
    }
    ASSERT_LE(tokens, options.length);
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    int64_t expected = lengths[i];
    if (expected > options.length && options.too_long == TooLong::skip) expected = 0;
    if (options.too_long == TooLong::cut) expected = std::min(expected, options.length);
    int64_t at = 0;
    for (const auto& [begin, tokens] : covered[static_cast<int64_t>(i)]) {
      ASSERT_EQ(begin, at);
      at += tokens;
    }
    ASSERT_EQ(at, expected) << "document " << i;
  }
}

TEST(SequencePacking, EveryTokenOnce) {
  for (uint32_t round = 0; round < 60; ++round) {
    const Numbers lengths = some_lengths(1 + round * 13, round, 2.0 + round % 4);
    for (const auto strategy : {PackStrategy::best_fit, PackStrategy::first_fit, PackStrategy::concatenate}) {
      for (const auto too_long : {TooLong::split, TooLong::cut, TooLong::skip}) {
        PackingOptions options{.length = 1 + round * 7 % 90,
                               .strategy = strategy,
                               .window = 1 + round * 5 % 64,
                               .too_long = too_long};
        if (round % 3 == 0) options.most_pieces = 1 + round % 5;
        if (round % 2 == 0) options.seed = round;
        const SequencePacking packing(lengths, options);
        const Packs packs = packs_of(packing, round % 4);
        check(lengths, options, packs);
        EXPECT_EQ(packing.report().packs, static_cast<int64_t>(packs.size()));
      }
    }
  }
}

double fill(const SequencePacking& packing) {
  return static_cast<double>(packing.report().tokens) /
         static_cast<double>(packing.size() * packing.options().length);
}

TEST(SequencePacking, PacksAreFull) {
  const Numbers lengths = some_lengths(40000, 3);
  for (const int64_t length : {1024, 2048, 8192}) {
    PackingOptions options{.length = length, .seed = 1};
    EXPECT_GT(fill(SequencePacking(lengths, options)), 0.995) << length;
    options.strategy = PackStrategy::concatenate;
    EXPECT_GT(fill(SequencePacking(lengths, options)), 0.999) << length;
    options.strategy = PackStrategy::first_fit;
    EXPECT_GT(fill(SequencePacking(lengths, options)), 0.95) << length;
  }
}

TEST(SequencePacking, BestFitLeavesTheLeastRoom) {
  const SequencePacking packing(Numbers{3, 6, 4, 7, 10}, {.length = 10});
  EXPECT_EQ(packing.size(), 3);
  EXPECT_EQ(fill(packing), 1.0);
}

TEST(SequencePacking, FirstFitTakesTheOldest) {
  const SequencePacking packing(Numbers{6, 5, 4, 5, 1}, {.length = 10, .strategy = PackStrategy::first_fit});
  const Packs expected{{{0, 0, 6}, {2, 0, 4}}, {{1, 0, 5}, {3, 0, 5}}, {{4, 0, 1}}};
  EXPECT_EQ(packs_of(packing), expected);
}

TEST(SequencePacking, ConcatenationCutsWhereAPackEnds) {
  const SequencePacking packing(Numbers{6, 0, 7, 9}, {.length = 10, .strategy = PackStrategy::concatenate});
  const Packs expected{{{0, 0, 6}, {2, 0, 4}}, {{2, 4, 3}, {3, 0, 7}}, {{3, 7, 2}}};
  EXPECT_EQ(packs_of(packing), expected);
  EXPECT_EQ(packing.report().split, 2);
  EXPECT_EQ(packing.report().empty, 1);
}

TEST(SequencePacking, AnEpochExchangesDocumentsOfEqualLength) {
  const Numbers lengths = some_lengths(5000, 8, 4.0);
  const PackingOptions options{.length = 256, .window = 512, .seed = 5};
  const SequencePacking packing(lengths, options);
  const Packs first = packs_of(packing, 0), second = packs_of(packing, 1);
  check(lengths, options, second);
  EXPECT_NE(first, second);
  const auto shapes = [](const Packs& packs) {
    std::vector<Numbers> all;
    for (const auto& pack : packs) {
      all.emplace_back();
      for (const PackPiece& piece : pack) all.back().push_back(piece.tokens);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  EXPECT_EQ(shapes(first), shapes(second));
  EXPECT_EQ(packs_of(SequencePacking(lengths, options), 1), second) << "a function of seed and epoch";
  PackingOptions other = options;
  other.seed = 6;
  EXPECT_NE(packs_of(SequencePacking(lengths, other), 0), first);
}

TEST(SequencePacking, ManyThreadsAskAtOnce) {
  const Numbers lengths = some_lengths(2000, 1, 3.0);
  const SequencePacking packing(lengths, {.length = 64, .seed = 2});
  const Packs expected = packs_of(packing, 3);
  const PackOrder order(packing, 3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < packing.size(); ++i) {
        std::vector<PackPiece> pieces;
        Numbers ends;
        order.at(Numbers{i}, pieces, ends);
        EXPECT_EQ(pieces, expected[static_cast<size_t>(i)]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SequencePacking, RefusesWhatCannotBe) {
  EXPECT_THROW(SequencePacking(Numbers{1, -1}, {.length = 4}), Error);
  EXPECT_THROW(SequencePacking(Numbers{1}, {.length = 0}), Error);
  EXPECT_THROW(SequencePacking(Numbers{1}, {.length = (1 << 24) + 1}), Error);
  EXPECT_THROW(SequencePacking(Numbers{1}, {.length = 4, .window = 0}), Error);
  EXPECT_THROW(SequencePacking(Numbers{1}, {.length = 4, .most_pieces = -1}), Error);
  EXPECT_EQ(SequencePacking(Numbers{}, {.length = 4, .seed = 0}).size(), 0);
  const SequencePacking packing(Numbers{3}, {.length = 4});
  std::vector<PackPiece> pieces;
  Numbers ends;
  EXPECT_THROW(PackOrder(packing, 0).at(Numbers{1}, pieces, ends), Error);
  EXPECT_THROW(PackOrder(packing, 0).at(Numbers{-1}, pieces, ends), Error);
}

TEST(OpenPacks, LeastSufficientRoom) {
  std::mt19937 engine(4);
  for (const int64_t length : {1, 2, 63, 64, 65, 4095, 4096, 5000, 300000}) {
    OpenPacks open(length);
    std::multimap<int64_t, int64_t> model;
    for (int64_t pack = 0; pack < 3000; ++pack) {
      const int64_t room = 1 + static_cast<int64_t>(engine() % static_cast<uint64_t>(length));
      if (engine() % 2) {
        open.put(pack, room);
        model.emplace(room, pack);
        continue;
      }
      const auto expected = model.lower_bound(room);
      const auto [found, its_room] = open.take(room);
      ASSERT_EQ(found < 0, expected == model.end());
      if (found < 0) continue;
      ASSERT_EQ(its_room, expected->first);
      auto entry = model.lower_bound(its_room);
      while (entry->second != found) ++entry;
      model.erase(entry);
    }
    EXPECT_LT(open.take(length + 1).pack, 0);
  }
}

TEST(FirstFit, OldestSufficientRoom) {
  std::mt19937 engine(5);
  FirstFit packs;
  Numbers rooms;
  EXPECT_EQ(packs.find(1), -1);
  for (int step = 0; step < 4000; ++step) {
    const int64_t room = static_cast<int64_t>(engine() % 100);
    if (rooms.empty() || engine() % 3 == 0) {
      packs.add(room);
      rooms.push_back(room);
    } else {
      const size_t pack = engine() % rooms.size();
      packs.set(static_cast<int64_t>(pack), room);
      rooms[pack] = room;
    }
    const int64_t needed = 1 + static_cast<int64_t>(engine() % 110);
    const auto found = std::find_if(rooms.begin(), rooms.end(), [&](int64_t each) { return each >= needed; });
    ASSERT_EQ(packs.find(needed), found == rooms.end() ? -1 : found - rooms.begin());
  }
}

}  // namespace
}  // namespace millrace::sequences
