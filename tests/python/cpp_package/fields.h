// Fields of every element type, over memory that says when it is given back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/batch.h"

inline constexpr millrace::DType kTypes[] = {
    millrace::DType::u8,  millrace::DType::i64, millrace::DType::f16, millrace::DType::bf16,
    millrace::DType::f32, millrace::DType::f64, millrace::DType::b8,  millrace::DType::i8,
    millrace::DType::i16, millrace::DType::i32, millrace::DType::u16, millrace::DType::u32,
    millrace::DType::u64, millrace::DType::c64, millrace::DType::c128};

// Bytes 0, 1, 0, 1, ... are values of every type. `gone` becomes true when nobody has the memory any more.
inline millrace::Field field_of(millrace::DType type, std::vector<int64_t> shape, bool* gone) {
  size_t bytes = millrace::dtype_bytes(type);
  for (const int64_t side : shape) bytes *= static_cast<size_t>(side);
  auto* memory = new std::vector<uint64_t>(bytes / 8 + 1);
  for (size_t i = 0; i < bytes; ++i) reinterpret_cast<uint8_t*>(memory->data())[i] = i % 2;
  std::shared_ptr<void> owner(memory, [gone](void* held) {
    delete static_cast<std::vector<uint64_t>*>(held);
    *gone = true;
  });
  return {"x", type, std::move(shape), memory->data(), owner};
}
