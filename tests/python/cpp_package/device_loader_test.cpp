// DeviceLoader: a Loader's batches, order, errors and states. With an accelerator on it, else on the CPU.
#include "millrace/device_loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "../../cpp/in_child.h"
#include "millrace/dataset.h"

namespace {

using millrace::DeviceBatch;
using millrace::DeviceLoader;
using millrace::Loader;
using millrace::LoaderOptions;

struct Rows {
  int64_t bad = -1;
  std::chrono::milliseconds pause{0};
  std::function<void()> on_read{};
  int64_t size() const { return 100; }
  std::vector<millrace::FieldSpec> fields() const {
    return {{"x", millrace::DType::f32, {3}}, {"tags", millrace::DType::i64, {}, true}};
  }
  void read(const millrace::SampleKey& key, millrace::RowWriter& out) const {
    std::this_thread::sleep_for(pause);
    if (on_read) on_read();
    if (key.index == bad) throw std::runtime_error("a bad row");
    for (float& x : out.row<float>(0)) x = static_cast<float>(key.index);
    for (int64_t& tag : out.ragged<int64_t>(1, key.index % 3)) tag = key.index;
  }
};

const LoaderOptions kOptions{.batch_size = 8, .shuffle = true, .threads = 2, .seed = 3};

at::Device device() {
  const auto type = at::accelerator::getAccelerator();
  return type && at::accelerator::deviceCount() > 0 ? at::Device(*type) : at::Device(at::kCPU);
}

Loader rows(Rows own = {}) { return Loader(millrace::make_dataset(own), kOptions); }

TEST(DeviceLoader, GivesWhatTheLoaderGives) {
  Loader host = rows();
  DeviceLoader loader(rows(), device());
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto batch = loader.begin();
    for (const millrace::Batch& expected : host) {
      ASSERT_NE(batch, loader.end());
      EXPECT_EQ(batch->number, expected.number());
      EXPECT_EQ(batch->indices, expected.indices());
      const at::Tensor& x = (*batch)["x"];
      EXPECT_EQ(x.device().type(), device().type());
      EXPECT_TRUE(x.cpu().equal(millrace::as_torch(expected["x"])));
      EXPECT_TRUE((*batch)["tags"].cpu().equal(millrace::as_torch(expected["tags"])));
      EXPECT_TRUE(batch->field("tags").offsets.cpu().equal(millrace::offsets_as_torch(expected["tags"])));
      ++batch;
    }
    EXPECT_EQ(batch, loader.end());
  }
}

TEST(DeviceLoader, StatesAreOfTheBatchThatWasGiven) {
  Loader host = rows();
  DeviceLoader loader(rows(), device(), 4);
  millrace::Batch expected;
  DeviceBatch batch;
  for (int i = 0; i < 20; ++i) {  // into the second epoch
    ASSERT_EQ(host.next(expected), loader.next(batch)) << i;
    EXPECT_EQ(loader.state(), host.state()) << i;
  }
  DeviceLoader resumed(rows(), device());
  resumed.load_state(loader.state());
  DeviceBatch same;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(loader.next(batch), resumed.next(same));
    EXPECT_EQ(batch.indices, same.indices);
  }
}

TEST(DeviceLoader, AnEpochThatIsLeft) {
  Loader host = rows();
  DeviceLoader loader(rows(), device());
  for (int epoch = 0; epoch < 4; ++epoch) {
    auto expected = host.begin();
    auto batch = loader.begin();
    for (int i = 0; i < epoch; ++i, ++expected, ++batch) EXPECT_EQ(batch->indices, expected->indices());
  }
}

TEST(DeviceLoader, AnErrorComesInThePlaceOfItsBatch) {
  DeviceLoader loader(rows({.bad = 50}), device());
  DeviceBatch batch;
  int errors = 0, batches = 0;
  for (bool more = true; more;) {
    try {
      more = loader.next(batch);
      batches += more ? 1 : 0;
    } catch (const millrace::Error& error) {
      EXPECT_NE(std::string(error.what()).find("a bad row"), std::string::npos) << error.what();
      ++errors;
    }
  }
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(batches, 12);  // of 13
}

TEST(DeviceLoader, CloseWakesWhoWaits) {
  DeviceLoader loader(rows({.pause = std::chrono::milliseconds(300)}), device());
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    loader.close();
  });
  DeviceBatch batch;
  try {
    loader.next(batch);
    ADD_FAILURE() << "closed";
  } catch (const millrace::Error& error) {
    EXPECT_EQ(error.kind(), millrace::ErrorKind::unavailable);
  }
  closer.join();
}

TEST(DeviceLoader, EndsInTheMiddle) {
  for (int batches = 0; batches < 5; ++batches) {
    DeviceLoader loader(rows(), device(), 3);
    DeviceBatch batch;
    for (int i = 0; i < batches; ++i) EXPECT_TRUE(loader.next(batch));
  }
}

TEST(DeviceLoader, EveryCallInAForkedChildIsRefusedAndTheParentGoesOn) {
  using millrace::refuses_fork;
  auto loader = std::make_unique<DeviceLoader>(rows(), device());
  DeviceBatch batch;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(loader->next(batch));  // the thread runs
    EXPECT_TRUE(millrace::in_child([&] {
      DeviceBatch none;
      const bool ok = refuses_fork([&] { loader->next(none); }) && refuses_fork([&] { loader->begin(); }) &&
                      refuses_fork([&] { static_cast<void>(loader->state()); }) &&
                      refuses_fork([&] { loader->load_state("{}"); });
      loader->close();
      loader.reset();
      return ok;
    }));
  }
  int left = 0;
  while (loader->next(batch)) ++left;
  EXPECT_EQ(left, 8);
}

TEST(DeviceLoader, AnIteratorGoesOnInItsOwnEpochOnly) {
  DeviceLoader loader(rows(), device());
  const std::string start = loader.state();
  for (const bool state : {false, true}) {
    auto outer = loader.begin();
    if (state)
      loader.load_state(start);
    else
      for (const DeviceBatch& batch : loader)
        if (batch.number == 2) break;
    try {
      ++outer;
      ADD_FAILURE() << "its epoch was left";
    } catch (const millrace::Error& error) {
      EXPECT_EQ(error.kind(), millrace::ErrorKind::invalid_argument);
      EXPECT_TRUE(outer->tensors.empty());
    }
  }
  auto outer = loader.begin();
  DeviceBatch batch;
  while (loader.next(batch)) {
  }
  EXPECT_TRUE(batch.tensors.empty());
  ++outer;
  EXPECT_EQ(outer, loader.end());
}

TEST(DeviceLoader, TheDestructorWaitsUntilAnotherThreadHasLeftNext) {
  for (int round = 0; round < 20; ++round) {
    std::mutex mutex;
    std::condition_variable changed;
    bool inside = false, open = false;
    const auto wait_inside = [&] {
      std::unique_lock lock(mutex);
      inside = true;
      changed.notify_all();
      changed.wait(lock, [&] { return open; });
    };
    auto loader = std::make_unique<DeviceLoader>(rows({.on_read = wait_inside}), device());
    std::thread caller([raw = loader.get()] {
      DeviceBatch batch;
      try {
        raw->next(batch);  // once: the loader may be gone when it has come back
      } catch (const millrace::Error& error) {
        EXPECT_EQ(error.kind(), millrace::ErrorKind::unavailable);
      }
    });
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return inside; });
    }
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until the destructor has begun, mostly
      const std::lock_guard lock(mutex);
      open = true;
      changed.notify_all();
    });
    loader.reset();
    caller.join();
    opener.join();
  }
}

TEST(DeviceLoader, TensorsOutliveIt) {
  at::Tensor x;
  int64_t first = 0;
  {
    DeviceLoader loader(rows(), device());
    auto batch = loader.begin();
    x = (*batch)["x"];
    first = batch->indices[0];
  }
  EXPECT_EQ(x[0][0].item<float>(), static_cast<float>(first));
}

TEST(DeviceLoader, Refuses) {
  EXPECT_THROW(DeviceLoader(rows(), at::kCPU, 0), millrace::Error);
  EXPECT_THROW(DeviceLoader(rows(), at::kMeta), millrace::Error);
  DeviceLoader loader(rows(), at::kCPU);
  EXPECT_THROW((*loader.begin())["y"], millrace::Error);
  if (at::accelerator::deviceCount() > 0) return;
  try {
    DeviceLoader cuda(rows(), at::Device(at::kCUDA, 0));
    ADD_FAILURE() << "there is no such device";
  } catch (const millrace::Error& error) {
    EXPECT_EQ(error.kind(), millrace::ErrorKind::unavailable);
    EXPECT_NE(std::string(error.what()).find("cuda:0"), std::string::npos);
  }
}

}  // namespace
