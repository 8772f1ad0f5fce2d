// The order between a DeviceLoader's stream and the consumer's, on an accelerator where everything comes
// late.
#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "fake_accelerator.h"
#include "millrace/dataset.h"
#include "millrace/device_loader.h"

namespace {

using namespace millrace;

struct Numbers {
  int64_t size() const { return 400; }
  std::vector<FieldSpec> fields() const { return {{"x", DType::i64, {100}}, {"tags", DType::i64, {}, true}}; }
  void read(const SampleKey& key, RowWriter& out) const {
    for (int64_t& x : out.row<int64_t>(0)) x = key.index;
    for (int64_t& tag : out.ragged<int64_t>(1, key.index % 3)) tag = key.index;
  }
};

Loader numbers() { return Loader(make_dataset(Numbers{}), {.batch_size = 8, .threads = 2, .prefetch = 1}); }

// The consumer's works find the values, though it drops each batch at once and never waits for its stream.
TEST(FakeDevice, WorksOfTheConsumersStreamFindTheValues) {
  std::atomic<int64_t> wrong{0}, seen{0};
  const c10::StreamGuard guard(fake::new_stream());
  DeviceLoader loader(numbers(), at::Device(at::kPrivateUse1, 0));
  for (const DeviceBatch& batch : loader) {
    const auto* x = static_cast<const int64_t*>(batch["x"].const_data_ptr());
    fake::enqueue(fake::current_stream(), [x, first = batch.indices[0], &wrong, &seen] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      for (int64_t i = 0; i < 800; ++i) wrong += x[i] != first + i / 100;
      ++seen;
    });
  }
  fake::synchronize(fake::current_stream());
  EXPECT_EQ(seen, 50);
  EXPECT_EQ(wrong, 0);
}

// Offsets that are dropped alone: no other memory of their batch, whose work the device would wait for, goes
// with them.
TEST(FakeDevice, OffsetsStayUntilTheConsumersStreamHasReadThem) {
  std::atomic<int64_t> wrong{0}, seen{0};
  std::vector<at::Tensor> kept;
  const c10::StreamGuard guard(fake::new_stream());
  DeviceLoader loader(numbers(), at::Device(at::kPrivateUse1, 0));
  for (const DeviceBatch& batch : loader) {
    kept.insert(kept.end(), {batch["x"], batch["tags"]});
    const auto* offsets = static_cast<const int64_t*>(batch.field("tags").offsets.const_data_ptr());
    fake::enqueue(fake::current_stream(), [offsets, first = batch.indices[0], &wrong, &seen] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (int64_t i = 0; i < 8; ++i) wrong += offsets[i + 1] - offsets[i] != (first + i) % 3;
      ++seen;
    });
  }
  fake::synchronize(fake::current_stream());
  EXPECT_EQ(seen, 50);
  EXPECT_EQ(wrong, 0);
}

// Copies that are on their way when everything is destroyed read memory that is still there.
TEST(FakeDevice, EndsWhileCopiesAreOnTheirWay) {
  for (int i = 0; i < 5; ++i) {
    DeviceLoader loader(numbers(), at::Device(at::kPrivateUse1), 4);
    DeviceBatch batch;
    EXPECT_TRUE(loader.next(batch));
    EXPECT_TRUE(batch["x"].cpu().eq(at::arange(8).unsqueeze(1)).all().item<bool>());
  }
}

TEST(FakeDevice, IsTheOneThatIsUsed) {
  DeviceLoader loader(numbers(), at::Device(at::kPrivateUse1));
  EXPECT_EQ(loader.device(), at::Device(at::kPrivateUse1, 0));
  EXPECT_THROW(DeviceLoader(numbers(), at::Device(at::kPrivateUse1, 1)), Error);
  if (!at::hasCUDA()) {
    EXPECT_THROW(DeviceLoader(numbers(), at::Device(at::kCUDA, 0)), Error);
  }
}

}  // namespace
