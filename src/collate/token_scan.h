// Where a number occurs in a long run of them: the documents of a file of tokens, by what separates them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace millrace::collate {

// The i with numbers[i] == value, ascending. Reads at the speed of memory or of the disk; any thread. The
// numbers may lie in a mapped file: false when that was cut short meanwhile. Types as find_equal() has them.
bool find_all(const void* numbers, base::DType type, size_t count, int64_t value,
              std::vector<int64_t>& found);

}  // namespace millrace::collate
