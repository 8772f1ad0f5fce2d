// FakeRows: a dataset whose rows are a function of their key alone, and which is slow, broken or ragged where
// a test says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "loader/data_loader.h"
#include "loader/row_source.h"

namespace millrace::loader::testing {

struct FakeRows {
  int64_t size = 100;
  transforms::OutputShape shape{3, 4, 5};
  bool shape_is_fixed = true;
  bool ragged = false;  // each row has a shape of its own, in two parts when it is two channels or more
  std::function<transforms::OutputShape(const base::SampleKey&)> shape_of;  // when not fixed
  std::function<void(const base::SampleKey&)> prepare, finish;              // may sleep or throw
  std::set<int64_t> unreadable_at_prepare, unreadable_at_finish;            // Error(corrupt_data)
  std::vector<int64_t> labels;                                              // filled by source(): label(i)

  static int64_t label(int64_t index) { return index * 7 + 1; }
  static std::string path(int64_t index) { return "fake/" + std::to_string(index) + ".jpg"; }
  // The first 8 bytes of the row's pattern, which repeats.
  static uint64_t pattern(const base::SampleKey& key);
  bool unreadable(int64_t index) const {
    return unreadable_at_prepare.contains(index) || unreadable_at_finish.contains(index);
  }
};

RowSource source(const std::shared_ptr<FakeRows>& rows);
std::unique_ptr<DataLoader> loader(const std::shared_ptr<FakeRows>& rows, const LoaderOptions& options);

// Where the bytes of a row of the batch are, and how many these are.
std::span<const uint8_t> row_of(const Batch& batch, int64_t row);

// Whether row `row` of the batch is, byte by byte, what the key gives, with the label of its index.
bool holds(const Batch& batch, int64_t row, const base::SampleKey& key);

std::vector<int64_t> range(int64_t begin, int64_t end);

// next() until it says something else than pending; fails the test after a minute.
DataLoader::Status next(DataLoader& loader, Batch& out);

// Submits `order` in batches of `batch_size`, ends the epoch and takes every batch.
std::vector<Batch> epoch(DataLoader& loader, const std::vector<int64_t>& order, int64_t batch_size,
                         bool drop_last = false, uint64_t seed = 1, uint64_t number = 0);

// From /proc/self: this process's threads, and its resident bytes.
int thread_count();
int64_t resident_bytes();
// Whether no more than `count` threads are left; waits for a minute. The system lists a thread for a moment after
// it was joined.
bool threads_fall_to(int count);

}  // namespace millrace::loader::testing
