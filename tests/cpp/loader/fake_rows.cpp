#include "fake_rows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/philox.h"

namespace millrace::loader::testing {
namespace {

void fill(const base::SampleKey& key, const transforms::OutputShape& shape, uint8_t* row) {
  const uint64_t pattern = FakeRows::pattern(key);
  const size_t bytes = static_cast<size_t>(shape.channels) * static_cast<size_t>(shape.height) *
                       static_cast<size_t>(shape.width);
  for (size_t i = 0; i < bytes; i += sizeof pattern)
    std::memcpy(row + i, &pattern, std::min(sizeof pattern, bytes - i));
}

class FakeMaker final : public RowMaker {
 public:
  explicit FakeMaker(std::shared_ptr<const FakeRows> rows) : rows_(std::move(rows)) {}

  transforms::OutputShape prepare(const base::SampleKey& key, size_t /*form*/) override {
    key_ = key;
    if (rows_->prepare) rows_->prepare(key);
    if (rows_->unreadable_at_prepare.contains(key.index)) refuse("no header");
    shape_ = rows_->shape_is_fixed || !rows_->shape_of ? rows_->shape : rows_->shape_of(key);
    return shape_;
  }
  std::vector<transforms::OutputShape> parts() const override {
    if (shape_.channels < 2) return {};
    return {{1, shape_.height, shape_.width}, {shape_.channels - 1, shape_.height, shape_.width}};
  }
  void finish(const RowMemory& memory) override {
    uint8_t* const row =
        memory.part(0, static_cast<size_t>(shape_.channels) * static_cast<size_t>(shape_.height) *
                           static_cast<size_t>(shape_.width));
    if (rows_->finish) rows_->finish(key_);
    if (rows_->unreadable_at_finish.contains(key_.index)) {
      std::memset(row, 0xEE, 1);  // a decoder that fails has often written something
      refuse("damaged");
    }
    fill(key_, shape_, row);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    const std::string path = FakeRows::path(key_.index);
    throw Error(ErrorKind::corrupt_data, path + ": " + why, path, key_.index * 10);
  }

  std::shared_ptr<const FakeRows> rows_;
  base::SampleKey key_;
  transforms::OutputShape shape_;
};

int64_t proc_status(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1));
  return -1;
}

}  // namespace

uint64_t FakeRows::pattern(const base::SampleKey& key) {
  base::Philox words(key, 0);
  const uint64_t high = words.next_u32();
  return high << 32 | words.next_u32();
}

RowSource source(const std::shared_ptr<FakeRows>& rows) {
  rows->labels.resize(static_cast<size_t>(rows->size));
  for (int64_t i = 0; i < rows->size; ++i) rows->labels[static_cast<size_t>(i)] = FakeRows::label(i);
  RowSource result;
  result.size = rows->size;
  result.type = base::DType::u8;
  if (rows->shape_is_fixed) result.fixed_shape = rows->shape;
  result.ragged = rows->ragged;
  result.labels = rows->labels;
  result.make_maker = [rows](trace::StageTimes*) { return std::make_unique<FakeMaker>(rows); };
  return result;
}

std::unique_ptr<DataLoader> loader(const std::shared_ptr<FakeRows>& rows, const LoaderOptions& options) {
  return make_loader(source(rows), options);
}

bool holds(const Batch& batch, int64_t row, const base::SampleKey& key) {
  if (row >= batch.rows || batch.labels[static_cast<size_t>(row)] != FakeRows::label(key.index)) return false;
  const std::span<const uint8_t> found = row_of(batch, row);
  std::vector<uint8_t> expected(found.size());
  fill(key, {1, 1, static_cast<int32_t>(found.size())}, expected.data());
  return std::ranges::equal(found, expected);
}

std::span<const uint8_t> row_of(const Batch& batch, int64_t row) {
  if (batch.ragged.empty()) {
    const auto bytes = static_cast<size_t>(batch.shape.elements());
    return {batch.images.data() + static_cast<size_t>(row) * bytes, bytes};
  }
  const RaggedRow& where = batch.ragged[static_cast<size_t>(row)];
  int64_t bytes = 0;
  for (const transforms::OutputShape& part : where.parts) bytes += part.elements();
  const core::Lease& block = batch.block(where.block);
  EXPECT_LE(where.offset + static_cast<size_t>(bytes), block.size_bytes());
  return {block.data() + where.offset, static_cast<size_t>(bytes)};
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> result(static_cast<size_t>(end - begin));
  std::iota(result.begin(), result.end(), begin);
  return result;
}

DataLoader::Status next(DataLoader& loader, Batch& out) {
  const int64_t give_up = base::now_ns() + 60'000'000'000;
  for (;;) {
    const auto status = loader.next(out, 5000);
    if (status != DataLoader::Status::pending) return status;
    if (base::now_ns() > give_up) {
      ADD_FAILURE() << "no batch for a minute";
      return DataLoader::Status::end;
    }
  }
}

std::vector<Batch> epoch(DataLoader& loader, const std::vector<int64_t>& order, int64_t batch_size,
                         bool drop_last, uint64_t seed, uint64_t number) {
  loader.start_epoch(seed, number);
  for (size_t i = 0; i < order.size(); i += static_cast<size_t>(batch_size)) {
    const size_t end = std::min(order.size(), i + static_cast<size_t>(batch_size));
    if (drop_last && end - i < static_cast<size_t>(batch_size)) break;
    loader.submit({order.begin() + static_cast<ptrdiff_t>(i), order.begin() + static_cast<ptrdiff_t>(end)});
  }
  loader.end_epoch();
  std::vector<Batch> batches;
  for (Batch batch; next(loader, batch) == DataLoader::Status::ready;) batches.push_back(std::move(batch));
  return batches;
}

int thread_count() { return static_cast<int>(proc_status("Threads")); }
bool threads_fall_to(int count) {
  for (const int64_t until = base::now_ns() + int64_t{60'000'000'000}; thread_count() > count;) {
    if (base::now_ns() > until) return false;
    std::this_thread::yield();
  }
  return true;
}
int64_t resident_bytes() { return proc_status("VmRSS") * 1024; }

}  // namespace millrace::loader::testing
