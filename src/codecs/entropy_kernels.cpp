#include "codecs/entropy_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/entropy_kernels.cpp"
#include "base/simd_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace::codecs::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D8 = hn::ScalableTag<uint8_t>;

const uint8_t* find_marker(const uint8_t* from, const uint8_t* end) {
  const D8 d;
  const auto step = static_cast<ptrdiff_t>(hn::Lanes(d));
  const auto mark = hn::Set(d, 0xFF);
  for (; end - from > step; from += step) {  // one byte more is read
    const auto found =
        hn::AndNot(hn::Eq(hn::LoadU(d, from + 1), hn::Zero(d)), hn::Eq(hn::LoadU(d, from), mark));
    const intptr_t first = hn::FindFirstTrue(d, found);
    if (first >= 0) return from + first;
  }
  for (; from < end; ++from)
    if (*from == 0xFF && (end - from < 2 || from[1] != 0)) break;
  return from;
}

const uint8_t* unstuff(const uint8_t* from, const uint8_t* end, uint8_t*& to) {
  const D8 d;
  const auto step = static_cast<ptrdiff_t>(hn::Lanes(d));
  const auto mark = hn::Set(d, 0xFF);
  while (end - from > step) {
    const auto bytes = hn::LoadU(d, from);
    hn::StoreU(bytes, d, to);
    const intptr_t first = hn::FindFirstTrue(d, hn::Eq(bytes, mark));
    const ptrdiff_t copied = first < 0 ? step : first;
    from += copied;
    to += copied;
    if (first < 0) continue;
    if (from[1] != 0) return from;
    *to++ = 0xFF;
    from += 2;
  }
  for (; from < end; ++from) {
    if (*from == 0xFF) {
      if (end - from < 2 || from[1] != 0) break;
      *to++ = 0xFF;
      ++from;
    } else {
      *to++ = *from;
    }
  }
  return from;
}

EntropyKernels choose_kernels() { return {find_marker, unstuff}; }

}  // namespace
}  // namespace millrace::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::codecs {
HWY_EXPORT(choose_kernels);
EntropyKernels entropy_kernels() { return HWY_DYNAMIC_DISPATCH(choose_kernels)(); }
}  // namespace millrace::codecs
#endif
