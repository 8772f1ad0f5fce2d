#include "collate/token_scan.h"

#include <array>

#include "collate/token_kernels.h"
#include "core/bus_guard.h"

namespace millrace::collate {

bool find_all(const void* numbers, base::DType type, size_t count, int64_t value,
              std::vector<int64_t>& found) {
  // Nothing may be allocated under the guard: it finds as many as there is room for.
  std::array<int64_t, 4096> some;
  for (size_t next = 0; next < count;) {
    size_t here = 0;
    const void* at = nullptr;
    const auto look = [&] {
      while (here < some.size() && (next = find_equal(numbers, type, next, count, value)) < count)
        some[here++] = static_cast<int64_t>(next++);
    };
    if (!core::guarded(look, &at)) return false;
    found.insert(found.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(here));
  }
  return true;
}

}  // namespace millrace::collate
