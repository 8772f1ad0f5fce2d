// Ranges: they reach the sink, nested, and only the sink that was there when they began.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trace/stage_times.h"

namespace millrace::trace {
namespace {

std::vector<std::string> names;
const RangeSink kSink{[](const char* name) noexcept { names.emplace_back(name); },
                      []() noexcept { names.emplace_back("end"); }};

TEST(Range, StagesAreRangesWhileSomebodyAsks) {
  StageTimes times;
  {
    const StageTimer unseen(&times, Stage::read);
  }
  range_sink = &kSink;
  {
    const StageTimer outer(&times, Stage::decode);
    const TraceRange inner("inner");
    range_sink = nullptr;
    const TraceRange unseen("unseen");
  }
  {
    const StageTimer unseen(nullptr, Stage::collate);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"decode", "inner", "end", "end"}));
  EXPECT_GT(times.ns(Stage::decode), 0);
}

}  // namespace
}  // namespace millrace::trace
