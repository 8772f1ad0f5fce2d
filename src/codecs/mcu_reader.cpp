#include "codecs/mcu_reader.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/mcu_reader.cpp"
#include "base/simd_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// No vectors here: compiled for each target for the sake of BMI2's shifts.
HWY_BEFORE_NAMESPACE();
namespace millrace::codecs::HWY_NAMESPACE {
namespace {

// The next prediction, or false when it leaves the range of a coefficient.
MILLRACE_INLINE bool advance_dc(McuReader::State& state, BlockReader& bits, size_t component) {
  const int32_t dc = state.dc[component] + bits.read_dc(*state.tables.dc[component]);
  state.dc[component] = dc;
  return dc == static_cast<int16_t>(dc);
}

bool read_mcus(McuReader::State& state, int first, int count, int16_t* groups) {
  BlockReader bits = state.bits;
  for (int mcu = first; mcu < first + count; ++mcu) {
    for (int i = 0; i < state.blocks; ++i) {
      const size_t component = state.component[static_cast<size_t>(i)];
      int16_t* block = groups + state.position[static_cast<size_t>(mcu)][static_cast<size_t>(i)];
      if (!advance_dc(state, bits, component)) return false;
      *block = static_cast<int16_t>(state.dc[component]);
      if (!bits.read_ac(*state.tables.ac[component], block)) return false;
    }
    if (bits.overrun()) return false;
  }
  state.bits = bits;
  return true;
}

bool skip_mcus(McuReader::State& state, int64_t count) {
  BlockReader bits = state.bits;
  for (int64_t mcu = 0; mcu < count; ++mcu) {
    for (int i = 0; i < state.blocks; ++i) {
      const size_t component = state.component[static_cast<size_t>(i)];
      if (!advance_dc(state, bits, component) || !bits.skip_ac(*state.tables.ac[component])) return false;
    }
    if (bits.overrun()) return false;
  }
  state.bits = bits;
  return true;
}

}  // namespace
}  // namespace millrace::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::codecs {

HWY_EXPORT(read_mcus);
HWY_EXPORT(skip_mcus);

const GroupZigzag kGroupZigzag;

void McuReader::start(const BaselineStream& stream, EntropyData& data, const Tables& tables) {
  state_ = {};
  state_.tables = tables;
  const auto h = static_cast<size_t>(stream.luma_h), v = static_cast<size_t>(stream.luma_v);
  state_.blocks = static_cast<int>(h * v) + stream.components - 1;
  for (size_t i = 0; i < static_cast<size_t>(state_.blocks); ++i) {
    const bool luma = i < h * v;
    state_.component[i] = static_cast<uint8_t>(luma ? 0 : i - h * v + 1);
    for (size_t mcu = 0; mcu < kMostMcus; ++mcu) {
      const size_t column = luma ? mcu * h + i % h : mcu;  // in a row of 4 h (or 4) blocks
      const size_t group = luma ? i / h * h + column / kGroupBlocks : i;
      state_.position[mcu][i] = static_cast<uint16_t>(group * kGroupStride + column % kGroupBlocks * 8);
    }
  }
  data_ = &data;
  segment_ = 0;
  interval_ = stream.restart_interval ? stream.restart_interval : std::numeric_limits<int64_t>::max();
  left_ = 0;
}

bool McuReader::next_segment() {
  if (segment_ >= static_cast<int64_t>(data_->segments())) return false;
  const std::span<const uint8_t> bytes = data_->open(static_cast<size_t>(segment_));
  state_.bits.start(bytes.data(), bytes.data() + bytes.size());
  state_.dc = {};
  ++segment_;
  left_ = interval_;
  return true;
}

bool McuReader::read(int count, int16_t* groups) {
  for (int done = 0; done < count;) {
    if (left_ == 0 && !next_segment()) return false;
    const int here = static_cast<int>(std::min<int64_t>(count - done, left_));
    if (!HWY_DYNAMIC_DISPATCH(read_mcus)(state_, done, here, groups)) return false;
    done += here;
    left_ -= here;
  }
  return true;
}

bool McuReader::skip(int64_t count) {
  if (count >= left_) {  // no caller needs the bits of the rest of this segment and of whole ones after it
    count -= left_;
    segment_ += count / interval_;
    count %= interval_;
    left_ = 0;
  }
  if (count == 0) return true;
  if (left_ == 0 && !next_segment()) return false;
  left_ -= count;
  return HWY_DYNAMIC_DISPATCH(skip_mcus)(state_, count);
}

}  // namespace millrace::codecs
#endif
