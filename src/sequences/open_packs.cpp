#include "sequences/open_packs.h"

#include <algorithm>
#include <bit>

namespace millrace::sequences {

OpenPacks::OpenPacks(int64_t length) : heads_(static_cast<size_t>(length) + 1, -1) {
  size_t count = heads_.size();
  do {
    count = (count + 63) / 64;
    levels_.emplace_back(count, 0);
  } while (count > 1);
}

void OpenPacks::put(int64_t pack, int64_t room) {
  const auto number = static_cast<size_t>(pack);
  if (number >= below_.size()) below_.resize(std::max(number + 1, below_.size() * 2), -1);
  int64_t& head = heads_[static_cast<size_t>(room)];
  below_[number] = head;
  if (head < 0) {
    auto at = static_cast<size_t>(room);
    for (auto& level : levels_) {
      level[at / 64] |= uint64_t{1} << (at % 64);
      at /= 64;
    }
  }
  head = pack;
}

// Up the levels until a word has a bit further on, then down to the first one below it.
int64_t OpenPacks::first_from(int64_t room) const {
  auto at = static_cast<size_t>(room);
  for (size_t level = 0; level < levels_.size(); ++level) {
    if (at / 64 >= levels_[level].size()) return -1;
    uint64_t rest = levels_[level][at / 64] >> (at % 64);
    if (rest == 0) {
      at = at / 64 + 1;
      continue;
    }
    at += static_cast<size_t>(std::countr_zero(rest));
    while (level-- > 0) at = at * 64 + static_cast<size_t>(std::countr_zero(levels_[level][at]));
    return static_cast<int64_t>(at);
  }
  return -1;
}

OpenPacks::Found OpenPacks::take(int64_t needed) {
  if (needed >= static_cast<int64_t>(heads_.size())) return {};
  const int64_t room = first_from(needed);
  if (room < 0) return {};
  int64_t& head = heads_[static_cast<size_t>(room)];
  const Found found{head, room};
  head = below_[static_cast<size_t>(head)];
  if (head < 0) {
    auto at = static_cast<size_t>(room);
    for (auto& level : levels_) {
      if ((level[at / 64] &= ~(uint64_t{1} << (at % 64))) != 0) break;
      at /= 64;
    }
  }
  return found;
}

void FirstFit::add(int64_t room) {
  if (packs_ == leaves_) {
    std::vector<int64_t> wider(leaves_ * 4, 0);
    std::copy(most_.begin() + static_cast<int64_t>(leaves_), most_.end(),
              wider.begin() + static_cast<int64_t>(leaves_ * 2));
    most_.swap(wider);
    leaves_ *= 2;
    for (size_t i = leaves_ - 1; i > 0; --i) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
  }
  set(static_cast<int64_t>(packs_++), room);
}

void FirstFit::set(int64_t pack, int64_t room) {
  size_t at = leaves_ + static_cast<size_t>(pack);
  most_[at] = room;
  while (at > 1) {
    at /= 2;
    const int64_t most = std::max(most_[2 * at], most_[2 * at + 1]);
    if (most_[at] == most) break;
    most_[at] = most;
  }
}

int64_t FirstFit::find(int64_t needed) const {
  if (most_[1] < needed) return -1;
  size_t at = 1;
  while (at < leaves_) at = 2 * at + (most_[2 * at] < needed);
  return static_cast<int64_t>(at - leaves_);
}

}  // namespace millrace::sequences
