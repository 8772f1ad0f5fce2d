// Compiled once per instruction set (Highway's foreach_target); the best one is chosen at run time.
#include "collate/streamed_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collate/streamed_copy.cpp"
#include "base/simd_targets.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::collate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void streamed_copy(const uint8_t* from, size_t size, uint8_t* to) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d), group = 4 * lanes;
  const size_t past =
      reinterpret_cast<uintptr_t>(to) % group;  // streamed stores are aligned, whole lines best
  size_t i = std::min(size, past ? group - past : 0);
  std::memcpy(to, from, i);
  for (; i + group <= size; i += group) {
    const auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + lanes);
    const auto c = hn::LoadU(d, from + i + 2 * lanes), e = hn::LoadU(d, from + i + 3 * lanes);
    hn::Stream(a, d, to + i);
    hn::Stream(b, d, to + i + lanes);
    hn::Stream(c, d, to + i + 2 * lanes);
    hn::Stream(e, d, to + i + 3 * lanes);
  }
  std::memcpy(to + i, from + i, size - i);
  hwy::FlushStream();  // ordered with nothing else
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace millrace::collate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::collate {

HWY_EXPORT(streamed_copy);

void streamed_copy(const void* from, size_t size, void* to) {
  if (size == 0) return;  // pointers of nothing may be null, which memcpy() does not take
  HWY_DYNAMIC_DISPATCH(streamed_copy)(static_cast<const uint8_t*>(from), size, static_cast<uint8_t*>(to));
}

}  // namespace millrace::collate
#endif  // HWY_ONCE
