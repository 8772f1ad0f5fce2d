// as_torch() and pinned_memory().
#include "millrace/torch_tensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "fields.h"
#include "millrace/arrays.h"
#include "millrace/loader.h"

namespace {

using millrace::as_torch;

TEST(AsTorch, EveryTypeOverTheSameMemory) {
  for (const millrace::DType type : kTypes) {
    SCOPED_TRACE(millrace::dtype_name(type));
    bool gone = false;
    millrace::Field field = field_of(type, {2, 3}, &gone);
    at::Tensor tensor = as_torch(field);
    EXPECT_EQ(tensor.element_size(), static_cast<int64_t>(millrace::dtype_bytes(type)));
    EXPECT_STREQ(c10::toString(tensor.scalar_type()), c10::toString(millrace::torch_type(type)));
    EXPECT_EQ(tensor.sizes(), at::IntArrayRef({2, 3}));
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(tensor.data_ptr(), field.data());
    at::Tensor part = tensor[1];
    field = millrace::Field();
    tensor = at::Tensor();
    EXPECT_FALSE(gone) << "a part keeps it, too";
    part = at::Tensor();
    EXPECT_TRUE(gone);
  }
}

TEST(AsTorch, TypesHaveTorchsNames) {
  EXPECT_EQ(millrace::torch_type(millrace::DType::f16), at::kHalf);
  EXPECT_EQ(millrace::torch_type(millrace::DType::bf16), at::kBFloat16);
  EXPECT_EQ(millrace::torch_type(millrace::DType::u8), at::kByte);
  EXPECT_EQ(millrace::torch_type(millrace::DType::i8), at::kChar);
  EXPECT_EQ(millrace::torch_type(millrace::DType::b8), at::kBool);
  EXPECT_EQ(millrace::torch_type(millrace::DType::u64), at::kUInt64);
  EXPECT_EQ(millrace::torch_type(millrace::DType::c128), at::kComplexDouble);
}

TEST(AsTorch, OfNothing) {
  EXPECT_EQ(as_torch({"x", millrace::DType::f32, {0, 3}, nullptr, nullptr}).numel(), 0);
  EXPECT_THROW(as_torch(millrace::Field()), millrace::Error);
  EXPECT_THROW(as_torch({"x", millrace::DType::f32, {2}, nullptr, nullptr}), millrace::Error);
  EXPECT_FALSE(millrace::offsets_as_torch(millrace::Field()).defined());
}

TEST(AsTorch, OutlivesLoaderAndBatch) {
  std::vector<int64_t> values(100);
  std::iota(values.begin(), values.end(), 0);
  std::vector<at::Tensor> kept;
  {
    millrace::Loader loader(millrace::array_rows({millrace::array_of("x", values)}),
                            {.batch_size = 10, .threads = 2});
    for (const millrace::Batch& batch : loader) kept.push_back(as_torch(batch["x"]));
  }
  ASSERT_EQ(kept.size(), 10U);
  EXPECT_TRUE(at::cat(kept).equal(at::arange(100)));
}

TEST(AsTorch, OffsetsOfRaggedFields) {
  const millrace::Field ragged("x", millrace::DType::f32, {3}, nullptr, nullptr, {0, 1, 1, 3});
  EXPECT_TRUE(millrace::offsets_as_torch(ragged).equal(at::tensor({0, 1, 1, 3}, at::kLong)));
  EXPECT_FALSE(millrace::offsets_as_torch({"x", millrace::DType::f32, {0}, nullptr, nullptr}).defined());
}

TEST(PinnedMemory, IsRefusedWithoutAnAccelerator) {
  if (at::accelerator::deviceCount() > 0) GTEST_SKIP() << "there is one";
  try {
    millrace::pinned_memory();
    FAIL();
  } catch (const millrace::Error& error) {
    EXPECT_EQ(error.kind(), millrace::ErrorKind::unavailable);
    EXPECT_NE(std::string(error.what()).find("leave LoaderOptions::memory empty"), std::string::npos);
  }
}

TEST(PinnedMemory, IsPageLocked) {
  if (at::accelerator::deviceCount() == 0) GTEST_SKIP() << "no accelerator";
  std::vector<float> values(64);
  millrace::Loader loader(millrace::array_rows({millrace::array_of("x", values)}),
                          {.batch_size = 8, .threads = 1, .memory = millrace::pinned_memory()});
  for (const millrace::Batch& batch : loader) EXPECT_TRUE(as_torch(batch["x"]).is_pinned());
}

}  // namespace
