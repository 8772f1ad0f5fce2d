// DriftExaminer: results are those of the numbers, jobs are let go, a full queue drops, the end comes at any
// time.
#include "tuning/drift_examiner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "millrace/error.h"

namespace millrace::tuning {
namespace {

ExamJob job_of(int64_t step, const std::shared_ptr<std::vector<float>>& data,
               base::DType type = base::DType::f32) {
  ExamJob job;
  job.step = step;
  const auto rows = static_cast<int64_t>(data->size()) / 4;
  job.fields.push_back({"x", {{reinterpret_cast<const uint8_t*>(data->data()), type, {rows, 4}, {4, 1}}}});
  job.keeper = data;
  return job;
}

TEST(DriftExaminer, AnyThreadMayCloseItAtAnyMoment) {
  for (int round = 0; round < 100; ++round) {
    DriftExaminer examiner({}, 2, nullptr, {});
    std::atomic<int> taken{0};
    std::vector<std::thread> closers;
    for (int i = 0; i < 2; ++i)
      closers.emplace_back([&] {
        while (taken < round % 7) std::this_thread::yield();
        examiner.close();
      });
    while (examiner.submit(job_of(taken, std::make_shared<std::vector<float>>(400, 2.0f)), true)) {
      ++taken;
      if (taken % 3 == 0) examiner.finish();
    }
    for (std::thread& closer : closers) closer.join();
    EXPECT_FALSE(examiner.submit(job_of(0, std::make_shared<std::vector<float>>(400, 2.0f)), true));
  }
}

TEST(DriftExaminer, ManySubmittersOneReader) {
  DriftExaminer examiner({}, 2, nullptr, {});
  std::atomic<int64_t> taken{0};
  std::vector<std::thread> submitters;
  for (int t = 0; t < 3; ++t)
    submitters.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        taken += examiner.submit(job_of(i, std::make_shared<std::vector<float>>(400, 2.0f)), i % 2 == 0);
    });
  for (int i = 0; i < 20; ++i) {
    examiner.statistics();
    examiner.counts();
    examiner.take_alarms();
  }
  for (std::thread& each : submitters) each.join();
  examiner.finish();
  const ExaminerCounts counts = examiner.counts();
  EXPECT_EQ(counts.examined, taken);
  EXPECT_EQ(counts.examined + counts.dropped, 150);
  EXPECT_GE(counts.examined, 75);
  const DriftStats stats = examiner.statistics();
  EXPECT_EQ(stats.samples, counts.examined * 100);
  EXPECT_EQ(stats.fields.at("x").series.size(), 4u);
  EXPECT_EQ(stats.fields.at("x").series[3].values.count, counts.examined * 100);
  EXPECT_EQ(stats.fields.at("x").series[3].values.mean, 2);
}

TEST(DriftExaminer, LetsGoOfWhatItHasRead) {
  DriftExaminer examiner({}, 2, nullptr, {});
  auto data = std::make_shared<std::vector<float>>(4000);
  const std::weak_ptr<std::vector<float>> alive = data;
  examiner.submit(job_of(0, data), true);
  data.reset();
  examiner.finish();
  EXPECT_TRUE(alive.expired());
}

TEST(DriftExaminer, ErrorsComeWithTheNextCall) {
  DriftExaminer examiner({}, 2, nullptr, {});
  const auto data = std::make_shared<std::vector<float>>(400);
  examiner.submit(job_of(0, data, base::DType::c64), true);
  EXPECT_THROW(examiner.finish(), Error);
  EXPECT_TRUE(examiner.submit(job_of(1, data), true));
  examiner.finish();
  EXPECT_EQ(examiner.statistics().fields.at("x").batches, 1);
}

TEST(DriftExaminer, ClosesAtAnyTime) {
  for (int i = 0; i < 20; ++i) {
    DriftExaminer examiner({}, 4, nullptr, {});
    const auto data = std::make_shared<std::vector<float>>(40'000, 1.0f);
    std::thread submitter([&] {
      for (int n = 0; n < 50; ++n) examiner.submit(job_of(n, data), true);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
    examiner.close();
    submitter.join();
    EXPECT_FALSE(examiner.submit(job_of(99, data), true));
    examiner.close();
  }
}

TEST(DriftExaminer, AShiftIsReported) {
  DriftExaminer before({}, 4, nullptr, {});
  std::vector<std::shared_ptr<std::vector<float>>> batches;
  for (int b = 0; b < 40; ++b) {
    batches.push_back(std::make_shared<std::vector<float>>(400));
    for (size_t i = 0; i < 400; ++i)
      (*batches.back())[i] = static_cast<float>((i * 37 + static_cast<size_t>(b) * 11) % 101) / 101;
    before.submit(job_of(b, batches.back()), true);
  }
  before.finish();
  const DriftStats reference = before.statistics();
  DriftExaminer examiner({}, 4, &reference, {});
  for (int b = 0; b < 40; ++b) {
    if (b >= 20)
      for (float& x : *batches[static_cast<size_t>(b)]) x += 1;
    examiner.submit(job_of(b * 10, batches[static_cast<size_t>(b)]), true);
  }
  examiner.finish();
  const auto alarms = examiner.take_alarms();
  ASSERT_FALSE(alarms.empty());
  for (const DriftAlarm& alarm : alarms) EXPECT_GE(alarm.since, 200) << alarm.kind;
}

}  // namespace
}  // namespace millrace::tuning
