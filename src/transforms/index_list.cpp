#include "transforms/index_list.h"

#include <algorithm>

#include "transforms/pixel_places.h"

namespace millrace::transforms {
bool has_fill(const IndexList& list) { return std::any_of(list.begin(), list.end(), is_fill); }

Window window_of(const IndexList& list) {
  int32_t low = INT32_MAX, high = -1;
  for (const int32_t i : list)
    if (!is_fill(i)) low = std::min(low, i), high = std::max(high, i);
  return high < 0 ? Window{0, 1} : Window{low, high - low + 1};
}

void shift(IndexList& list, int32_t by) {
  for (int32_t& i : list)
    if (!is_fill(i)) i -= by;
}

int direction_of(const IndexList& list) {
  if (list.size() == 1) return is_fill(list[0]) ? 0 : 1;
  const int step = list[1] - list[0];
  if ((step != 1 && step != -1) || is_fill(list[0])) return 0;
  for (size_t i = 1; i < list.size(); ++i)
    if (list[i] - list[i - 1] != step || is_fill(list[i])) return 0;
  return step;
}

void pull_back_crop(IndexList& list, int32_t offset, int32_t size, PaddingMode mode, int32_t fill) {
  for (int32_t& i : list) {
    if (i < 0) continue;
    i = padded_place(i + offset, size, mode, fill);
  }
}

void pull_back_scale(IndexList& list, double first, double step, int32_t in_size, int32_t fill) {
  const int32_t last = list.empty() ? -1 : *std::max_element(list.begin(), list.end());
  if (last < 0) return;
  // Pillow steps along in f64 and rounds each position down; the sum's rounding errors are part of the
  // result. A position that they push over the edge stays unfilled.
  IndexList table(last + 1);
  double position = first;
  for (int32_t& entry : table) {
    entry = place_at(position, in_size, fill);
    position += step;
  }
  for (int32_t& i : list)
    if (i >= 0) i = table[i];
}

void pull_back_nearest(IndexList& list, int32_t in_size, int32_t out_size, int32_t fill) {
  const double step = static_cast<double>(in_size) / out_size;
  pull_back_scale(list, step * 0.5, step, in_size, fill);
}

}  // namespace millrace::transforms
