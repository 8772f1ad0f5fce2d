#include "transforms/erase.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>

#include "base/half.h"
#include "transforms/noise.h"

namespace millrace::transforms {
namespace {

void store(float value, base::DType type, std::byte* out) {
  const auto put = [out](auto v) { std::memcpy(out, &v, sizeof(v)); };
  switch (type) {
    case base::DType::f16: return put(base::to_f16(value));
    case base::DType::bf16: return put(base::to_bf16(value));
    case base::DType::f64: return put(static_cast<double>(value));
    default: return put(value);
  }
}

// The values of one rectangle, element by element.
class Values {
 public:
  explicit Values(const Erasure& erasure) : erasure_(erasure), normals_(normal_block(erasure.noise, 0)) {}
  bool one_for_each_channel() const { return !erasure_.spec->value.empty() || erasure_.spec->per_channel; }
  float next(int channel) {
    const std::vector<double>& value = erasure_.spec->value;
    if (!value.empty()) return static_cast<float>(value[value.size() == 1 ? 0 : channel]);
    if (erasure_.spec->per_channel) return normals_[channel];
    if (element_ % 4 == 0) normals_ = normal_block(erasure_.noise, element_ / 4);
    return normals_[element_++ % 4];
  }

 private:
  const Erasure& erasure_;
  std::array<float, 4> normals_;
  uint64_t element_ = 0;
};

}  // namespace

void erase(std::span<const Erasure> erasures, PictureSize size, base::DType type, void* out) {
  const size_t element = base::dtype_bytes(type);
  for (const Erasure& erasure : erasures) {
    Values values(erasure);
    const base::Rect& box = erasure.box;
    const size_t bytes = size_t(box.width) * element;
    for (int channel = 0; channel < 3; ++channel) {
      const std::byte* first = nullptr;  // line of this channel, where all its values are one
      for (int32_t y = box.top; y < box.bottom(); ++y) {
        std::byte* to = static_cast<std::byte*>(out) +
                        ((size_t(channel) * size.height + y) * size.width + box.left) * element;
        if (first != nullptr) {
          std::memcpy(to, first, bytes);
          continue;
        }
        if (values.one_for_each_channel()) first = to;
        for (int32_t x = 0; x < box.width; ++x, to += element) store(values.next(channel), type, to);
      }
    }
  }
}

}  // namespace millrace::transforms
