#include "loader/ragged_rows.h"

#include <algorithm>
#include <utility>

#include "core/shared_ring.h"

namespace millrace::loader {

uint8_t* RaggedRows::take(size_t row, std::vector<transforms::OutputShape> parts, size_t bytes,
                          core::Lease& slot) {
  RaggedRow& place = rows_[row];
  if (room_[row] < bytes) {
    const size_t room = core::aligned_field(bytes);
    came_ += room_[row] == 0;
    place.block = block_for(room, slot);
    place.offset = std::exchange(used_, used_ + room);
    room_[row] = room;
    taken_ += room;
  }
  place.parts = std::move(parts);
  return block(place.block, slot).data() + place.offset;
}

// The block that has so many bytes left: the last, or a new one.
size_t RaggedRows::block_for(size_t bytes, core::Lease& slot) {
  const size_t last = further_.size();
  if (block(last, slot).size_bytes() - used_ >= bytes) return last;
  const size_t to_come = rows_.size() - came_;
  const size_t ahead = std::min((taken_ + bytes) / came_ * to_come, kMostAhead);
  if (slot.size_bytes() == 0) {
    slot.resize(bytes + ahead);
    return 0;
  }
  further_.push_back(slot.beside(bytes + ahead));
  used_ = 0;
  return further_.size();
}

void RaggedRows::hand_over(size_t rows, core::Lease slot, Batch& out) {
  rows_.resize(rows);
  if (further_.empty() && used_ < core::kSmallFieldBytes) slot = core::Lease::copy_of(slot.data(), used_);
  out.images = std::move(slot);
  out.further = std::move(further_);
  out.ragged = std::move(rows_);
}

}  // namespace millrace::loader
