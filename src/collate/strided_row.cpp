#include "collate/strided_row.h"

#include <algorithm>
#include <cstring>

#include "collate/row_gather.h"

namespace millrace::collate {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr size_t kLongRun = 64;  // of longer ones a cache miss is a small part
constexpr size_t kBlockBytes =
    size_t{16} << 10;  // of the batch, written in an order of its own: half of the first cache
constexpr size_t kLeastRows = 16,
                 kMostRows =
                     512;  // in a block: a cache line of floats, so that neighbours share what was read

// kRun: the bytes of a run when they are known to the compiler, else 0.
template <size_t kRun>
struct Copier {
  size_t given;
  size_t run() const { return kRun ? kRun : given; }

  uint8_t* row(const uint8_t* from, std::span<const RowAxis> axes, uint8_t* out) const {
    const RowAxis axis = axes.front();
    if (axes.size() > 1) {
      for (int64_t k = 0; k < axis.size; ++k) out = row(from + k * axis.stride_bytes, axes.subspan(1), out);
      return out;
    }
    for (int64_t k = 0; k < axis.size; ++k, out += run())
      std::memcpy(out, from + k * axis.stride_bytes, run());
    return out;
  }

  // Copies the run at `offset` of each row, then the runs that follow along `axes`.
  uint8_t* block(std::span<const uint8_t* const> rows, int64_t offset, std::span<const RowAxis> axes,
                 size_t row_bytes, uint8_t* out) const {
    if (axes.empty()) {
      for (size_t i = 0; i < rows.size(); ++i) std::memcpy(out + i * row_bytes, rows[i] + offset, run());
      return out + run();
    }
    for (int64_t k = 0; k < axes.front().size; ++k)
      out = block(rows, offset + k * axes.front().stride_bytes, axes.subspan(1), row_bytes, out);
    return out;
  }
};

template <class Use>
void with_run(size_t bytes, const Use& use) {
  switch (bytes) {
    case 1: return use(Copier<1>{bytes});
    case 2: return use(Copier<2>{bytes});
    case 4: return use(Copier<4>{bytes});
    case 8: return use(Copier<8>{bytes});
    case 16: return use(Copier<16>{bytes});
    default: return use(Copier<0>{bytes});
  }
}

}  // namespace

StridedRow::StridedRow(std::span<const RowAxis> axes, size_t item_bytes)
    : item_bytes_(item_bytes), row_bytes_(item_bytes), run_bytes_(item_bytes),
      end_(static_cast<int64_t>(item_bytes)) {
  for (const RowAxis& axis : axes) row_bytes_ *= static_cast<size_t>(axis.size);
  if (row_bytes_ == 0) {
    end_ = 0;
    return;
  }
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (axis->size == 1) continue;
    (axis->stride_bytes < 0 ? begin_ : end_) += (axis->size - 1) * axis->stride_bytes;
    if (axes_.empty() && axis->stride_bytes == static_cast<int64_t>(run_bytes_))
      run_bytes_ *= static_cast<size_t>(axis->size);
    else if (!axes_.empty() && axis->stride_bytes == axes_.front().size * axes_.front().stride_bytes)
      axes_.front().size *= axis->size;
    else
      axes_.insert(axes_.begin(), *axis);
  }
  const int64_t spans = end_ - begin_;
  far_apart_ = run_bytes_ <= kLongRun && spans > kPageBytes && spans > 4 * static_cast<int64_t>(row_bytes_);
}

void StridedRow::gather(std::span<const uint8_t* const> rows, uint8_t* out) const {
  if (row_bytes_ == 0) return;
  if (is_dense()) return gather_rows(rows, row_bytes_, out);
  with_run(run_bytes_, [&](const auto& copier) {
    if (far_apart_) {
      const size_t step = std::clamp(kBlockBytes / row_bytes_, kLeastRows, kMostRows);
      for (size_t i = 0; i < rows.size(); i += step)
        copier.block(rows.subspan(i, std::min(step, rows.size() - i)), 0, axes_, row_bytes_,
                     out + i * row_bytes_);
      return;
    }
    const auto spans = static_cast<size_t>(end_ - begin_);
    const size_t ahead = rows_to_fetch_ahead(spans);
    for (size_t i = 0; i < rows.size(); ++i, out += row_bytes_) {
      if (i + ahead < rows.size()) fetch_row(rows[i + ahead] + begin_, spans);
      copier.row(rows[i], axes_, out);
    }
  });
}

}  // namespace millrace::collate
