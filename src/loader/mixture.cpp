#include "loader/mixture.h"

#include <string>
#include <utility>

#include "base/checked.h"
#include "millrace/error.h"

namespace millrace::loader {
namespace {

std::vector<int32_t> inverse_of(const std::vector<int32_t>& partners, int64_t rows) {
  std::vector<int32_t> inverse(static_cast<size_t>(rows), -1);
  bool right = std::cmp_equal(partners.size(), rows);
  for (size_t i = 0; right && i < partners.size(); ++i) {
    const int32_t partner = partners[i];
    right = partner >= 0 && partner < rows && inverse[static_cast<size_t>(partner)] < 0;
    if (right) inverse[static_cast<size_t>(partner)] = static_cast<int32_t>(i);
  }
  if (!right)
    throw Error(ErrorKind::invalid_argument,
                "the partners that rows are mixed with must be a permutation of "
                "the batch's " +
                    std::to_string(rows) + " rows");
  return inverse;
}

}  // namespace

Mixture::Mixture(BatchMix mix, int64_t rows, const transforms::RowMixer& mixer)
    : mix_(std::move(mix)), mixer_(mixer),
      row_bytes_(size_t(mixer.size().height) * size_t(mixer.size().width) * 3 * sizeof(float)),
      followers_(inverse_of(mix_.partners, rows)), halves_(static_cast<size_t>(rows)), unmixed_(rows) {
  if (!mix_.mix.box) return;
  const base::Rect& box = *mix_.mix.box;
  if (box.left < 0 || box.top < 0 || box.width < 0 || box.height < 0 || box.right() > mixer.size().width ||
      box.bottom() > mixer.size().height)
    throw Error(ErrorKind::invalid_argument, "the box that rows are mixed in lies outside of the pictures");
}

transforms::HalfRow& Mixture::half(int64_t row) {
  std::call_once(made_, [this] {
    const size_t bytes = mixer_.bytes();
    memory_ = core::take_block(base::checked_mul(bytes, halves_.size(), "rows that are mixed"));
    rows_.resize(halves_.size());
    for (size_t i = 0; i < rows_.size(); ++i) rows_[i].pixels = memory_.data() + i * bytes;
  });
  return rows_[static_cast<size_t>(row)];
}

void Mixture::arrived(int64_t row, uint8_t* batch) {
  const int32_t own = static_cast<int32_t>(row), follower = followers_[static_cast<size_t>(row)];
  for (const int32_t out : {own, follower}) {
    const auto at = static_cast<size_t>(out);
    // Acquires from, and releases to, the thread that brings the other half.
    const int before = halves_[at].fetch_add(1, std::memory_order_acq_rel);
    if (before == 0) continue;  // a row that is its own partner arrives twice, here
    mixer_.mix(half(out), half(mix_.partners[at]), mix_.mix,
               reinterpret_cast<float*>(batch + at * row_bytes_));
    // All have read what they mixed before the last of them lets it go.
    if (unmixed_.fetch_sub(1, std::memory_order_acq_rel) == 1) core::cache_block(std::move(memory_));
  }
}

}  // namespace millrace::loader
