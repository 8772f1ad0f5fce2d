#include "tuning/row_sampler.h"

#include <algorithm>

#include "base/half.h"
#include "base/xxh64.h"
#include "millrace/error.h"
#include "tuning/repeats.h"

namespace millrace::tuning {
namespace {

constexpr int64_t kMostChannels = 4, kMostColumns = 256, kMostCountedColumns = 32, kRuns = 16,
                  kHashedBytes = 4096, kHashedRun = 64;

bool is_whole(base::DType type) {
  return type != base::DType::f16 && type != base::DType::bf16 && type != base::DType::f32 &&
         type != base::DType::f64;
}

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Bool {
  uint8_t bits;
};

double number(Half h) { return base::from_f16(h.bits); }
double number(Brain b) { return base::from_bf16(b.bits); }
double number(Bool b) { return b.bits != 0; }
template <class T>
double number(T value) {
  return static_cast<double>(value);
}

// The dimensions of one series within a row; neighbours in memory are joined.
struct Inner {
  std::vector<int64_t> sizes, strides;  // strides in elements
  int64_t total = 1;

  void append(int64_t size, int64_t stride) {
    if (size == 1) return;
    total *= size;
    if (!sizes.empty() && strides.back() == stride * size) {
      sizes.back() *= size;
      strides.back() = stride;
    } else {
      sizes.push_back(size);
      strides.push_back(stride);
    }
  }
  int64_t offset(int64_t place) const {
    int64_t sum = 0;
    for (size_t d = sizes.size(); d-- > 0; place /= sizes[d]) sum += place % sizes[d] * strides[d];
    return sum;
  }
};

// (first place, count) of each run of neighbours that is looked at.
std::vector<std::pair<int64_t, int64_t>> runs_of(int64_t total, int64_t most, uint64_t turn) {
  if (total <= most) return {{0, total}};
  const int64_t runs = std::min(kRuns, most), length = most / runs;
  const double shift = static_cast<double>(mix_hash(turn, 1) >> 11) * 0x1p-53;
  std::vector<std::pair<int64_t, int64_t>> result;
  for (int64_t i = 0; i < runs; ++i) {
    const auto begin = static_cast<int64_t>((static_cast<double>(i) + shift) * static_cast<double>(total) /
                                            static_cast<double>(runs));
    result.emplace_back(std::min(begin, total - length), length);
  }
  return result;
}

template <class T>
void read(const uint8_t* base, const Inner& inner, int64_t place, int64_t count, double* out) {
  const T* const data = reinterpret_cast<const T*>(base);
  if (inner.sizes.size() <= 1) {
    const int64_t stride = inner.sizes.empty() ? 0 : inner.strides[0];
    const T* const first = data + place * stride;
    for (int64_t i = 0; i < count; ++i) out[i] = number(first[i * stride]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = number(data[inner.offset(place + i)]);
}

using Reader = void (*)(const uint8_t*, const Inner&, int64_t, int64_t, double*);
Reader reader_of(base::DType type) {
  switch (type) {
    case base::DType::u8: return read<uint8_t>;
    case base::DType::i8: return read<int8_t>;
    case base::DType::b8: return read<Bool>;
    case base::DType::i16: return read<int16_t>;
    case base::DType::u16: return read<uint16_t>;
    case base::DType::i32: return read<int32_t>;
    case base::DType::u32: return read<uint32_t>;
    case base::DType::i64: return read<int64_t>;
    case base::DType::u64: return read<uint64_t>;
    case base::DType::f16: return read<Half>;
    case base::DType::bf16: return read<Brain>;
    case base::DType::f32: return read<float>;
    case base::DType::f64: return read<double>;
    case base::DType::c64:
    case base::DType::c128: break;
  }
  throw Error(ErrorKind::invalid_argument, std::string("there are no statistics of ") +
                                               base::dtype_name(type) + " numbers; leave the field out");
}

// The length of a row without a run of equal numbers at one end: the run of zeros if there is one, else the
// run at the end, else the one at the beginning.
double unpadded_length(const uint8_t* row, const Inner& inner, Reader reader) {
  const auto at = [&](int64_t place) {
    double value;
    reader(row, inner, place, 1, &value);
    return value;
  };
  const int64_t total = inner.total;
  int64_t behind = 1, before = 1;
  while (behind < total && at(total - 1 - behind) == at(total - 1)) ++behind;
  while (before < total && at(before) == at(0)) ++before;
  if (behind == total) return at(0) == 0 ? 0 : static_cast<double>(total);  // a mask of ones is no padding
  const bool in_front = behind == 1 || (at(total - 1) != 0 && at(0) == 0 && before > 1);
  const int64_t run = in_front ? before : behind;
  return static_cast<double>(run > 1 ? total - run : total);
}

uint64_t hash_of(const uint8_t* row, const Inner& inner, size_t item, uint64_t seed) {
  if (inner.sizes.size() <= 1 && (inner.sizes.empty() || inner.strides[0] == 1)) {
    const auto bytes = inner.total * static_cast<int64_t>(item);
    if (bytes <= kHashedBytes) return mix_hash(seed, base::xxh64({row, static_cast<size_t>(bytes)}));
    uint64_t hash = mix_hash(seed, static_cast<uint64_t>(bytes));
    constexpr int64_t runs = kHashedBytes / kHashedRun;
    for (int64_t i = 0; i < runs; ++i)
      hash = mix_hash(
          hash, base::xxh64({row + (bytes - kHashedRun) * i / (runs - 1), static_cast<size_t>(kHashedRun)}));
    return hash;
  }
  const int64_t most = kHashedBytes / static_cast<int64_t>(item) / 4, numbers = std::min(inner.total, most);
  uint64_t hash = mix_hash(seed, static_cast<uint64_t>(inner.total));
  for (int64_t i = 0; i < numbers; ++i) {
    const int64_t place = numbers > 1 ? (inner.total - 1) * i / (numbers - 1) : 0;
    hash = mix_hash(hash, base::xxh64({row + inner.offset(place) * static_cast<int64_t>(item), item}));
  }
  return hash;
}

}  // namespace

FieldLayout layout_of(const BatchView& batch) {
  const auto& sizes = batch.sizes;
  FieldLayout layout;
  const bool whole = is_whole(batch.type), picture = batch.type == base::DType::u8 && sizes.size() > 2;
  const auto series = [&](size_t axis) {
    layout.series_axis = static_cast<int>(axis);
    layout.series = sizes[axis];
  };
  if (batch.ragged && sizes.size() == 2) {
    layout.counted = whole;
    return layout;
  }
  if (sizes.size() == 2) {
    layout.counted = whole && !(batch.type == base::DType::u8 && sizes[1] > kMostCountedColumns);
    if (sizes[1] > 0 && sizes[1] <= (whole ? kMostCountedColumns : kMostColumns)) series(1);
    layout.padded = layout.counted && layout.series_axis < 0;
    return layout;
  }
  layout.counted = whole && !picture;
  if (layout.counted || sizes.size() < 4) return layout;
  for (const size_t axis : {size_t{1}, sizes.size() - 1, size_t{2}}) {
    if (sizes[axis] < 1 || sizes[axis] > kMostChannels) continue;
    series(axis);
    layout.channels = sizes[axis] > 1;
    break;
  }
  return layout;
}

void sample_rows(const BatchView& batch, const FieldLayout& layout, const SampleLimits& limits, uint64_t turn,
                 SampledBatch& out) {
  const Reader reader = reader_of(batch.type);
  const size_t item = base::dtype_bytes(batch.type);
  const auto item_stride = static_cast<int64_t>(item);
  Inner inner, whole;
  int64_t series_stride = 0;
  for (size_t d = 1; d < batch.sizes.size(); ++d) {
    whole.append(batch.sizes[d], batch.strides[d]);
    if (static_cast<int>(d) == layout.series_axis)
      series_stride = batch.strides[d];
    else
      inner.append(batch.sizes[d], batch.strides[d]);
  }
  const auto runs = runs_of(inner.total, limits.most_values, turn);
  size_t each = 0;
  for (const auto& run : runs) each += static_cast<size_t>(run.second);

  const int64_t rows = batch.rows(), kept = std::min(rows, limits.most_rows);
  const int64_t row_stride = batch.strides.empty() ? 0 : batch.strides[0];
  for (int64_t i = 0; i < kept; ++i) {
    const uint8_t* const row = batch.data + (rows * i / kept) * row_stride * item_stride;
    SampledRow sampled{out.values.size(), each, 0, 0};
    out.values.resize(out.values.size() + each * static_cast<size_t>(layout.series));
    double* to = out.values.data() + sampled.begin;
    for (int64_t s = 0; s < layout.series && each > 0; ++s)
      for (const auto& [place, count] : runs) {
        reader(row + s * series_stride * item_stride, inner, place, count, to);
        to += count;
      }
    if (layout.padded && inner.total > 0) sampled.length = unpadded_length(row, inner, reader);
    if (whole.total > 0) sampled.hash = hash_of(row, whole, item, whole.total > 1 ? 1 : 2);
    out.rows.push_back(sampled);
  }
}

}  // namespace millrace::tuning
