// Stage clocks: every nanosecond is in one stage, CPU time goes to those that compute, and rows can be read
// from outside at any time.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <numeric>
#include <string>
#include <thread>

#include "trace/stage_clock.h"
#include "trace/stage_times.h"

namespace millrace::trace {
namespace {

using std::chrono::milliseconds;

int64_t at(const std::array<int64_t, kStages>& ns, Stage stage) { return ns[static_cast<size_t>(stage)]; }
int64_t sum(const std::array<int64_t, kStages>& ns) {
  return std::accumulate(ns.begin(), ns.end(), int64_t{0});
}

void compute_for(int64_t ns) {
  timespec time{};
  const auto cpu = [&time] {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  const int64_t end = cpu() + ns;
  while (cpu() < end) {
  }
}

// A test's own thread, so that nothing stays attached behind it.
template <class Body>
StageReading in_thread(const std::shared_ptr<StageClock>& clock, Body body) {
  std::thread([&] {
    const StageLife life(clock, Stage::collate);
    body();
  }).join();
  return clock->read();
}

TEST(StageClock, StagesSumToTheThreadsLife) {
  const auto clock = std::make_shared<StageClock>();
  const StageReading seen = in_thread(clock, [] {
    for (int i = 0; i < 1000; ++i) {
      const StageScope outer(Stage::decode);
      const StageScope inner(Stage::read);
    }
    const StageScope idle(Stage::idle);
    std::this_thread::sleep_for(milliseconds(20));
  });
  EXPECT_EQ(seen.stage, Stage::ended);
  EXPECT_EQ(sum(seen.wall_ns), seen.until_ns - seen.born_ns);
  EXPECT_GE(at(seen.wall_ns, Stage::idle), 20'000'000);
  EXPECT_GT(at(seen.wall_ns, Stage::decode), 0);
  EXPECT_GT(at(seen.wall_ns, Stage::read), 0);
  EXPECT_EQ(at(seen.wall_ns, Stage::transform), 0);
}

TEST(StageClock, CpuTimeIsOfThoseThatCompute) {
  const auto clock = std::make_shared<StageClock>();
  const StageReading seen = in_thread(clock, [] {
    for (int i = 0; i < 200; ++i) {
      {
        const StageScope read(Stage::read);
        std::this_thread::sleep_for(std::chrono::microseconds(150));
      }
      {
        const StageScope decode(Stage::decode);
        compute_for(100'000);
      }
    }
    const StageScope idle(Stage::idle);
    std::this_thread::sleep_for(milliseconds(20));
  });
  EXPECT_NEAR(static_cast<double>(at(seen.cpu_ns, Stage::decode)), 20e6, 5e6);
  EXPECT_LT(at(seen.cpu_ns, Stage::read) + at(seen.cpu_ns, Stage::idle), 10'000'000);
  EXPECT_LE(sum(seen.cpu_ns), sum(seen.wall_ns));
}

TEST(StageClock, AScopeGoesBackToTheStageItFound) {
  const auto clock = std::make_shared<StageClock>();
  in_thread(clock, [&clock] {
    const auto now = [&clock] { return clock->read().stage; };
    EXPECT_EQ(now(), Stage::collate);
    {
      StageTimes times;
      const StageTimer timer(&times, Stage::read);
      EXPECT_EQ(now(), Stage::read);
      const StageScope scope(Stage::decode);
      EXPECT_EQ(now(), Stage::decode);
    }
    EXPECT_EQ(now(), Stage::collate);
  });
}

TEST(StageClock, ScopesOnAThreadThatNobodyCountsDoNothing) {
  std::thread([] {
    EXPECT_EQ(current_stage_clock, nullptr);
    const StageScope scope(Stage::decode);
    StageTimes times;
    {
      const StageTimer timer(&times, Stage::read);
    }
    EXPECT_GT(times.ns(Stage::read), 0);
  }).join();
}

TEST(StageClock, TheOutermostNextIsAStepAndTheLoopsCodeIsNotCountedAsOurs) {
  const auto clock = std::make_shared<StageClock>();
  std::thread([&] {
    clock->restart();
    const Stage start = clock->begin(Stage::start);
    EXPECT_EQ(start, Stage::step);
    clock->leave(start);
    for (int i = 0; i < 3; ++i) {
      const Stage outer = clock->begin(Stage::copy);
      const Stage inner = clock->begin(Stage::handover);
      EXPECT_EQ(inner, Stage::copy);
      clock->note_ready(i);
      {
        const StageScope wait(Stage::wait);
        std::this_thread::sleep_for(milliseconds(2));
      }
      clock->leave(inner);
      clock->leave(outer);
      EXPECT_EQ(current_stage_clock, nullptr);
      const StageScope ignored(Stage::decode);
      std::this_thread::sleep_for(milliseconds(3));
    }
    const Stage last = clock->begin(Stage::handover);
    clock->end_when_left();
    clock->leave(last);
  }).join();
  const StageReading seen = clock->read();
  EXPECT_EQ(seen.stage, Stage::ended);
  EXPECT_EQ(sum(seen.wall_ns), seen.until_ns - seen.born_ns);
  EXPECT_GE(at(seen.wall_ns, Stage::wait), 6'000'000);
  EXPECT_GE(at(seen.wall_ns, Stage::step), 9'000'000);
  EXPECT_EQ(at(seen.wall_ns, Stage::decode), 0);
  EXPECT_GE(clock->first_wait_ns(), 2'000'000);
  EXPECT_LT(clock->first_wait_ns(), at(seen.wall_ns, Stage::wait));
  const auto steps = clock->steps();
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[2].ready, 2);
  EXPECT_EQ(steps[3].ready, -1);
  EXPECT_EQ(clock->begin(Stage::handover), Stage::ended);  // an exhausted iterator is asked again
  clock->leave(Stage::ended);
  EXPECT_EQ(sum(clock->read().wall_ns), sum(seen.wall_ns));
}

TEST(StageClock, LoadersInsideOneAnotherKeepTheirOwnClocks) {
  const auto outer = std::make_shared<StageClock>(), inner = std::make_shared<StageClock>();
  std::thread([&] {
    outer->restart();
    inner->restart();
    const Stage a = outer->begin(Stage::handover);
    const Stage sample = outer->enter(Stage::sample);
    const Stage b = inner->begin(Stage::handover);
    {
      const StageScope decode(Stage::decode);
      std::this_thread::sleep_for(milliseconds(2));
    }
    inner->leave(b);
    EXPECT_EQ(current_stage_clock, outer.get());
    outer->enter(sample);
    outer->leave(a);
  }).join();
  EXPECT_EQ(at(outer->read().wall_ns, Stage::decode), 0);
  EXPECT_GE(at(outer->read().wall_ns, Stage::sample), 2'000'000);
  EXPECT_GE(at(inner->read().wall_ns, Stage::decode), 2'000'000);
}

TEST(StageClock, OnlyTheLatestStepsAreKept) {
  const auto clock = std::make_shared<StageClock>();
  std::thread([&clock] {
    clock->restart();
    for (size_t i = 0; i < StageClock::kMostSteps + 10; ++i) clock->leave(clock->begin(Stage::handover));
  }).join();
  EXPECT_EQ(clock->steps().size(), StageClock::kMostSteps);
  EXPECT_EQ(clock->steps_before(), 10);
}

TEST(StageClock, AReaderNeverSeesHalfAChange) {
  const auto clock = std::make_shared<StageClock>();
  std::atomic<bool> done = false;
  std::thread writer([&] {
    const StageLife life(clock, Stage::collate);
    for (int i = 0; i < 20'000; ++i) {
      const StageScope scope(i % 2 ? Stage::decode : Stage::read);
      if (i % 100 == 0) clock->row().write_note("note " + std::to_string(i));
    }
    done = true;
  });
  int64_t last = 0;
  while (!done) {
    const StageReading seen = clock->read();
    if (seen.born_ns == 0) continue;
    ASSERT_EQ(sum(seen.wall_ns), seen.until_ns - seen.born_ns);
    ASSERT_GE(seen.until_ns, last);
    last = seen.until_ns;
    const std::string note = clock->row().read_note();
    ASSERT_TRUE(note.empty() || note.starts_with("note ")) << note;
  }
  writer.join();
}

TEST(StageClock, NotesAreCutOffWhereTheRowEnds) {
  StageRow row;
  row.write_note(std::string(StageRow::kNoteBytes + 100, 'x'));
  EXPECT_EQ(row.read_note(), std::string(StageRow::kNoteBytes, 'x'));
  row.write_note("y");
  EXPECT_EQ(row.read_note(), "y");
}

TEST(StageClock, AKilledProcessLeavesARowThatCanBeRead) {
  void* memory = mmap(nullptr, kRowStride, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& row = *static_cast<StageRow*>(memory);
  const pid_t child = fork();
  if (child == 0) {
    const auto clock = std::make_shared<StageClock>(row);
    clock->attach(Stage::sample);
    for (;;) const StageScope scope(Stage::collate);
  }
  while (read_row(row).born_ns == 0) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(5));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  row.end_for_it(base::now_ns());
  const StageReading seen = read_row(row);
  EXPECT_EQ(seen.stage, Stage::ended);
  EXPECT_GE(sum(seen.wall_ns), 5'000'000);
  EXPECT_NEAR(static_cast<double>(sum(seen.wall_ns)), static_cast<double>(seen.until_ns - seen.born_ns), 1e6);
  munmap(memory, kRowStride);
}

TEST(StageClock, AForkedChildIsAttachedToNothing) {
  const auto clock = std::make_shared<StageClock>();
  in_thread(clock, [] {
    const pid_t child = fork();
    if (child == 0) _exit(current_stage_clock == nullptr ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_NE(current_stage_clock, nullptr);
  });
}

}  // namespace
}  // namespace millrace::trace
