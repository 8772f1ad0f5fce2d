// TableCache: the last few decoding tables that were built, by the specification they were built from.
//
// Nearly all files of a data set use the same few (standard) tables, and building one costs as much as
// decoding several per cent of a photo.
// Bound: kSlots tables; the one that was not used for the longest time goes first. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "codecs/baseline_stream.h"

namespace millrace::codecs {

template <class Table>
class TableCache {
 public:
  // Null when the specification is not valid. The pointer lives until kSlots other tables were asked for.
  const Table* get(const HuffmanSpec& spec) {
    ++clock_;
    for (Slot& slot : slots_)
      if (slot.table && slot.spec == spec) {
        slot.used = clock_;
        return slot.table.get();
      }
    Slot& oldest = *std::min_element(slots_.begin(), slots_.end(),
                                     [](const Slot& a, const Slot& b) { return a.used < b.used; });
    std::unique_ptr<Table> table = oldest.table ? std::move(oldest.table) : std::make_unique<Table>();
    if (!table->build(spec)) return nullptr;
    oldest = {spec, clock_, std::move(table)};
    return oldest.table.get();
  }

 private:
  static constexpr size_t kSlots = 6;  // three components use at most three tables, so two pictures' worth
  struct Slot {
    HuffmanSpec spec;
    uint64_t used = 0;
    std::unique_ptr<Table> table;
  };
  std::array<Slot, kSlots> slots_;
  uint64_t clock_ = 0;
};

}  // namespace millrace::codecs
