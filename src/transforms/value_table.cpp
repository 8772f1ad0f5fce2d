#include "transforms/value_table.h"

#include <string>

#include "base/half.h"
#include "millrace/error.h"

namespace millrace::transforms {
namespace {

// Types narrower than f32: torch computes each operation in f32 and rounds its result.
struct Half {
  using Stored = uint16_t;
  static float round(float v) { return base::from_f16(base::to_f16(v)); }
  static Stored store(float v) { return base::to_f16(v); }
};
struct Brain {
  using Stored = uint16_t;
  static float round(float v) { return base::from_bf16(base::to_bf16(v)); }
  static Stored store(float v) { return base::to_bf16(v); }
};
struct Single {
  using Stored = float;
  static float round(float v) { return v; }
  static Stored store(float v) { return v; }
};

void require_nonzero_std(bool nonzero, base::DType type) {
  if (!nonzero)
    throw Error(ErrorKind::invalid_argument,
                std::string("Normalize: std evaluated to zero after conversion to torch.") +
                    base::dtype_name(type) +
                    ", leading to division by zero; use a larger std or a wider dtype");
}

template <class Rounding>
void fill_f32_like(ValueTable& table, bool multiply, const std::optional<Normalize>& normalize) {
  for (int c = 0; c < 3; ++c) {
    const float mean = normalize ? Rounding::round(static_cast<float>(normalize->mean[c])) : 0;
    const float std = normalize ? Rounding::round(static_cast<float>(normalize->std[c])) : 1;
    require_nonzero_std(std != 0, table.type);
    for (int byte = 0; byte < 256; ++byte) {
      const auto x = static_cast<float>(byte);
      float v = Rounding::round(multiply ? x * static_cast<float>(1.0 / 255) : x / 255.0f);
      if (normalize) v = Rounding::round(Rounding::round(v - mean) / std);
      const auto stored = Rounding::store(v);
      std::memcpy(table.channels[c].data() + byte * sizeof(stored), &stored, sizeof(stored));
    }
  }
}

void fill_f64(ValueTable& table, bool multiply, const std::optional<Normalize>& normalize) {
  for (int c = 0; c < 3; ++c)
    for (int byte = 0; byte < 256; ++byte) {
      double v = multiply ? byte * (1.0 / 255) : static_cast<double>(static_cast<float>(byte) / 255.0f);
      if (normalize) v = (v - normalize->mean[c]) / normalize->std[c];
      std::memcpy(table.channels[c].data() + byte * sizeof(v), &v, sizeof(v));
    }
}

void fill_u8(ValueTable& table) {
  for (auto& channel : table.channels)
    for (int byte = 0; byte < 256; ++byte) channel[byte] = static_cast<std::byte>(byte);
}

ChannelMath channel_math(bool multiply, const std::optional<Normalize>& normalize, int c) {
  ChannelMath m;
  m.scale_high = static_cast<float>(1.0 / 255);
  m.scale_low = multiply ? 0 : static_cast<float>(1.0 / 255 - static_cast<double>(m.scale_high));
  if (normalize) {
    m.mean = static_cast<float>(normalize->mean[c]);
    m.std = static_cast<float>(normalize->std[c]);
    m.inverse = 1.0f / m.std;
  }
  return m;
}

}  // namespace

ValueTable make_value_table(const ToTensor& to_tensor, const std::optional<Normalize>& normalize) {
  ValueTable table;
  table.planes = to_tensor.channels;
  switch (to_tensor.type) {
    case OutputType::u8:
      table.type = base::DType::u8;
      fill_u8(table);
      break;
    case OutputType::f16:
      table.type = base::DType::f16;
      fill_f32_like<Half>(table, to_tensor.multiply, normalize);
      break;
    case OutputType::bf16:
      table.type = base::DType::bf16;
      fill_f32_like<Brain>(table, to_tensor.multiply, normalize);
      break;
    case OutputType::f32:
      table.type = base::DType::f32;
      fill_f32_like<Single>(table, to_tensor.multiply, normalize);
      for (int c = 0; c < 3; ++c) table.math[c] = channel_math(to_tensor.multiply, normalize, c);
      break;
    case OutputType::f64:
      table.type = base::DType::f64;
      fill_f64(table, to_tensor.multiply, normalize);
      break;
  }
  return table;
}

}  // namespace millrace::transforms
