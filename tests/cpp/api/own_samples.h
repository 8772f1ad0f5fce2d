// Numbered: a dataset of one's own for tests: every value of a sample follows from its key.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/dataset.h"

namespace millrace {

struct Numbered {
  int64_t samples = 10;
  std::set<int64_t> bad{};                          // read() throws for these
  std::function<void(const SampleKey&)> on_read{};  // before anything is written
  std::shared_ptr<std::atomic<int64_t>> reads = std::make_shared<std::atomic<int64_t>>(0);

  int64_t size() const { return samples; }
  // A byte, a ragged field and two of other sizes, so that blocks have to be put in order to be aligned.
  std::vector<FieldSpec> fields() const {
    return {{"flag", DType::u8, {}},
            {"words", DType::i32, {2}, true},
            {"x", DType::f32, {3}},
            {"index", DType::i64, {}},
            {"bits", DType::u32, {}}};
  }
  void read(const SampleKey& key, RowWriter& out) const {
    ++*reads;
    if (on_read) on_read(key);
    out.row<uint8_t>(0)[0] = static_cast<uint8_t>(key.index % 7);
    const auto words = out.ragged<int32_t>(1, key.index % 4);
    for (size_t i = 0; i < words.size(); ++i)
      words[i] = static_cast<int32_t>(key.index * 100 + static_cast<int64_t>(i));
    const auto x = out.row<float>(2);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(key.index) + static_cast<float>(i) / 4;
    out.row<int64_t>(3)[0] = key.index;
    out.row<uint32_t>(4)[0] = random_bits(key, 0)[0];
    if (bad.contains(key.index)) throw std::runtime_error("it is damaged");
  }
  std::string name(int64_t index) const { return "number " + std::to_string(index); }
};

}  // namespace millrace
