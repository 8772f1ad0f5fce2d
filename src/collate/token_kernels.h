// The inner loops for rows of whole numbers: they widen numbers and search for values.
//
// Every function exists twice: in `scalar`, which defines the result, and vectorised by Highway, which picks
// the best instruction set at run time and gives the same bits. No state, any thread. Rows need not be
// aligned to their elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace millrace::collate {

// Whether widen() knows the way: from whole numbers of 8 to 32 bits to int32 or int64 that hold all of them.
bool widens(base::DType from, base::DType to);

// out[i] = in[i] for `count` elements. With `past_caches` for batches that are larger than the caches: the
// destination is not read first.
void widen(const void* in, base::DType from, base::DType to, size_t count, void* out,
           bool past_caches = false);

// The first i in [begin, count) with in[i] == value; `count` when there is none. Whole numbers of up to 64
// bits, but no uint64.
size_t find_equal(const void* in, base::DType type, size_t begin, size_t count, int64_t value);

// The first i with in[i] < 0 or in[i] > highest; `count` when there is none. The same types; highest >= 0.
size_t find_outside(const void* in, base::DType type, size_t count, int64_t highest);

namespace scalar {
void widen(const void* in, base::DType from, base::DType to, size_t count, void* out,
           bool past_caches = false);
size_t find_equal(const void* in, base::DType type, size_t begin, size_t count, int64_t value);
size_t find_outside(const void* in, base::DType type, size_t count, int64_t highest);
}  // namespace scalar

}  // namespace millrace::collate
