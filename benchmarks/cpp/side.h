// A side of cpp_library.py: a program that runs an epoch when a line on its standard input says so, and
// answers with a line of JSON.
//
//   ["epoch"]   -> {"seconds": ..., "first_s": ..., "rows": ..., "batches": ...}
//   ["check"]   -> the same, and what was in it: see Content
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

namespace side {

// A dense field of a batch, in host memory.
struct Field {
  const void* data = nullptr;
  size_t bytes = 0;
};

struct Batch {
  int64_t rows = 0;
  std::vector<Field> fields;
};

using Visit = std::function<void(const Batch&)>;
using Epoch = std::function<void(const Visit&)>;  // visits the batches of the next epoch

// `batches`: a number for each batch, which depends on each 32-bit word and its place in the batch. `rows`:
// one for all of the epoch's rows in whatever order. `sum`, `squares`: of the first field's floats.
struct Content {
  std::vector<uint64_t> batches;
  uint64_t rows = 0;
  double sum = 0, squares = 0, floats = 0;

  void add(const Batch& batch) {
    uint64_t number = 0;
    for (const Field& field : batch.fields) {
      const auto* bytes = static_cast<const char*>(field.data);
      const size_t words = field.bytes / 4, row_words = words / static_cast<size_t>(batch.rows);
      for (size_t i = 0; i < words; ++i) {
        uint32_t word = 0;
        std::memcpy(&word, bytes + 4 * i, 4);
        number += word * (2 * i + 1);
        rows += word * (2 * (i % row_words) + 1);
      }
    }
    batches.push_back(number);
    const Field& first = batch.fields.front();
    for (size_t i = 0; i < first.bytes / 4; ++i) {
      float value = 0;
      std::memcpy(&value, static_cast<const char*>(first.data) + 4 * i, 4);
      if (!std::isfinite(value)) continue;  // of fields that hold no floats
      sum += value;
      squares += static_cast<double>(value) * value;
      floats += 1;
    }
  }

  std::string json() const {
    std::string text = ", \"content\": [";
    for (const uint64_t& number : batches)
      text += std::to_string(number) + (&number == &batches.back() ? "" : ", ");
    const double mean = sum / floats;
    return text + "], \"row_content\": " + std::to_string(rows) + ", \"mean\": " + std::to_string(mean) +
           ", \"std\": " + std::to_string(std::sqrt(squares / floats - mean * mean));
  }
};

inline int serve(const Epoch& epoch) {
  std::cout << "{}" << std::endl;  // it is ready
  for (std::string line; std::getline(std::cin, line);) {
    using Clock = std::chrono::steady_clock;
    const auto seconds_since = [](Clock::time_point start) {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    Content content;
    int64_t rows = 0, batches = 0;
    double first_s = 0;
    const bool checks = line == "[\"check\"]";
    const auto start = Clock::now();
    epoch([&](const Batch& batch) {
      if (batches == 0) first_s = seconds_since(start);
      rows += batch.rows;
      ++batches;
      if (checks) content.add(batch);
    });
    const double seconds = seconds_since(start);
    std::cout << "{\"seconds\": " << seconds << ", \"first_s\": " << first_s << ", \"rows\": " << rows
              << ", \"batches\": " << batches << (checks ? content.json() : "") << "}" << std::endl;
  }
  return 0;
}

}  // namespace side
