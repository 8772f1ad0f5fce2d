// The umbrella has everything, under the library's version.
#include "millrace/millrace.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

TEST(Headers, HaveTheVersionOfTheLibrary) {
  EXPECT_EQ(version(), std::to_string(MILLRACE_VERSION_MAJOR) + "." + std::to_string(MILLRACE_VERSION_MINOR) +
                           "." + std::to_string(MILLRACE_VERSION_PATCH));
}

TEST(Headers, TypesOfNumbersAreTorchs) {
  EXPECT_STREQ(dtype_name(DTypeOf<float>::value), "float32");
  EXPECT_EQ(dtype_bytes(DType::c128), 16u);
}

TEST(Headers, RandomBitsAreThoseOfPhilox) {
  const SampleKey key{1, 2, 3, 0};
  EXPECT_EQ(random_bits(key, 4), random_bits(key, 4));
  EXPECT_NE(random_bits(key, 4), random_bits(key, 5));
  EXPECT_NE(random_bits(key, 4), random_bits(key, 4, 1));
  EXPECT_NE(random_bits(key, 4), random_bits({1, 2, 3, 1}, 4));
}

TEST(Headers, AReaderThatIsChosenAtRunTime) {
  struct Reader final : SampleReader {
    int64_t size() const override { return 2; }
    std::vector<FieldSpec> fields() const override { return {{"x", DType::u8}}; }
    void read(const SampleKey& key, RowWriter& out) const override {
      if (key.index == 1) throw std::runtime_error("no");
      out.row<uint8_t>(0)[0] = 9;
    }
  };
  Loader loader(make_dataset(std::make_shared<const Reader>()), {});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch["x"].as<uint8_t>()[0], 9);
  try {
    loader.next(batch);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "sample 1: no");
  }
}

}  // namespace
}  // namespace millrace
