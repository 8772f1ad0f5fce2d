// OpenPacks: packs that still have room, found by the room they have. FirstFit: found by their age.
//
// OpenPacks keeps a stack of packs for each amount of room and a tree of bits over the amounts, 64 per word,
// so that the least sufficient one is found in a step per level: four for packs of 16 million tokens.
// FirstFit is a tree of maxima over all packs, one step per level, which doubles as packs are begun. One
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::sequences {

class OpenPacks {
 public:
  explicit OpenPacks(int64_t length);  // of a pack; at least 1

  void put(int64_t pack, int64_t room);  // 1 <= room <= length; a number that is not in already
  struct Found {
    int64_t pack = -1, room = 0;  // -1: none has that much
  };
  Found take(int64_t needed);  // the pack with the least room of `needed` tokens or more, the one put in last
                               // of several

 private:
  int64_t first_from(int64_t room) const;

  std::vector<std::vector<uint64_t>>
      levels_;  // bit r of level 0: there is a pack with room r; bit i of the next: word i has a bit
  std::vector<int64_t> heads_, below_;  // by room; by pack: the next one of its stack
};

class FirstFit {
 public:
  void add(int64_t room);  // the next pack
  void set(int64_t pack, int64_t room);
  int64_t room(int64_t pack) const { return most_[leaves_ + static_cast<size_t>(pack)]; }
  int64_t find(int64_t needed) const;  // the oldest pack with so much room; -1: none. needed >= 1

 private:
  std::vector<int64_t> most_{0, 0};  // 1: the root; i: the larger of 2i and 2i + 1
  size_t leaves_ = 1, packs_ = 0;
};

}  // namespace millrace::sequences
