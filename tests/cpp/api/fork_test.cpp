// A forked child may look at what it inherited, and drop it, but gets no batch from it.
#include <gtest/gtest.h>

#include "../in_child.h"
#include "millrace/arrays.h"
#include "millrace/loader.h"
#include "own_samples.h"

namespace millrace {
namespace {

class Forks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Forks, ::testing::Values(0, 2));

TEST_P(Forks, EveryCallInAChildIsRefusedAndTheParentGoesOn) {
  const Dataset own = make_dataset(Numbered{.samples = 400});
  const Dataset rows = array_rows({array_of<float>("x", std::vector<float>(400 * 1000), {1000})});
  for (const Dataset& data : {own, rows}) {
    auto loader = std::make_unique<Loader>(data, LoaderOptions{.batch_size = 2, .threads = GetParam()});
    Batch batch;
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(loader->next(batch));
      EXPECT_TRUE(in_child([&] {
        const bool ok = loader->forked() && batch.size() == 2 && batch.fields()[0].data() != nullptr &&
                        refuses_fork([&] { loader->next(batch); }) &&
                        refuses_fork([&] { loader->begin(); }) && refuses_fork([&] { loader->state(); }) &&
                        refuses_fork([&] { loader->stats(); }) &&
                        refuses_fork([&] { loader->load_state("{}"); }) &&
                        refuses_fork([&] { loader->set_limits(1, 1); });
        batch = {};
        loader->close();
        loader.reset();
        return ok;
      }));
    }
    EXPECT_FALSE(loader->forked());
    int64_t left = 0;
    while (loader->next(batch)) ++left;
    EXPECT_EQ(left, 190);
  }
}

TEST_P(Forks, AChildMakesALoaderOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  if (GetParam() > 0) GTEST_SKIP() << "the thread sanitizer does not allow new threads in a forked child";
#endif
  const Dataset data = make_dataset(Numbered{.samples = 8});
  Loader loader(data, {.batch_size = 4, .threads = GetParam()});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_TRUE(in_child([&] {
    Loader mine(data, {.batch_size = 4, .threads = GetParam()});
    int64_t samples = 0;
    for (const Batch& each : mine) samples += each.size();
    return samples == 8;
  }));
}

}  // namespace
}  // namespace millrace
