// torch_draws: numbers that were noted from torch 2.13. tests/parity/test_cpp_draws.py compares many more.
#include "samplers/torch_draws.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::samplers {
namespace {

using Numbers = std::vector<int64_t>;

TEST(TorchDraws, AreTorchsAndTakeAsManyWords) {
  TorchGenerator generator(5);
  EXPECT_EQ(randint((int64_t{1} << 28) - 1, 3, generator), (Numbers{148147046, 236996814, 250105852}));
  EXPECT_EQ(randint(int64_t{1} << 28, 3, generator), (Numbers{82545638, 187307408, 218661896}));
  EXPECT_EQ(randint(int64_t{1} << 40, 2, generator), (Numbers{981879963367, 819333335451}));
  const std::vector<double> weights{0.1, 0, 3, 2, 0.5};
  EXPECT_EQ(multinomial(weights, 8, true, generator), (Numbers{2, 3, 2, 2, 2, 2, 3, 2}));
  EXPECT_EQ(multinomial(weights, 1, true, generator), Numbers{2});
  EXPECT_EQ(multinomial(weights, 4, false, generator), (Numbers{3, 2, 4, 0}));
  EXPECT_EQ(generator.base_seed(), 6151855312797692804);
}

}  // namespace
}  // namespace millrace::samplers
