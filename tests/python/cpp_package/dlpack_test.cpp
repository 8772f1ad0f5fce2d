// to_dlpack(): what a consumer of the standard, libtorch, reads from it.
#include "millrace/dlpack.h"

#include <ATen/DLConvertor.h>
#include <gtest/gtest.h>

#include <cstring>

#include "fields.h"
#include "millrace/torch_tensor.h"

namespace {

using millrace::to_dlpack;

TEST(DLPack, LibtorchReadsEveryType) {
  for (const millrace::DType type : kTypes) {
    SCOPED_TRACE(millrace::dtype_name(type));
    bool gone = false;
    millrace::Field field = field_of(type, {2, 3, 4}, &gone);
    at::Tensor tensor = at::fromDLPack(to_dlpack<DLManagedTensor>(field));
    EXPECT_EQ(tensor.scalar_type(), millrace::torch_type(type));
    EXPECT_EQ(tensor.sizes(), at::IntArrayRef({2, 3, 4}));
    EXPECT_EQ(tensor.strides(), at::IntArrayRef({12, 4, 1}));
    EXPECT_EQ(tensor.data_ptr(), field.data());
    field = millrace::Field();
    EXPECT_FALSE(gone);
    tensor = at::Tensor();
    EXPECT_TRUE(gone);
  }
}

TEST(DLPack, TheVersionedStructure) {
  bool gone = false;
  auto* managed = to_dlpack<DLManagedTensorVersioned>(field_of(millrace::DType::f32, {5}, &gone));
  EXPECT_EQ(managed->version.major, 1U);
  EXPECT_EQ(managed->flags, 0U);
  EXPECT_EQ(at::fromDLPackVersioned(managed).numel(), 5);
  EXPECT_TRUE(gone);
}

// The structures of millrace's header lie in memory as the standard's.
TEST(DLPack, TheOwnStructuresAreTheStandards) {
  bool gone = false;
  millrace::dlpack::ManagedTensor* own = to_dlpack(field_of(millrace::DType::i16, {4, 1}, &gone));
  DLManagedTensor theirs;
  static_assert(sizeof(theirs) == sizeof(*own));
  std::memcpy(&theirs, own, sizeof theirs);
  EXPECT_EQ(theirs.dl_tensor.ndim, 2);
  EXPECT_EQ(theirs.dl_tensor.shape[0], 4);
  EXPECT_EQ(theirs.dl_tensor.dtype.code, kDLInt);
  EXPECT_EQ(theirs.dl_tensor.dtype.bits, 16);
  EXPECT_EQ(theirs.dl_tensor.device.device_type, kDLCPU);
  own->deleter(own);
  EXPECT_TRUE(gone);
  static_assert(sizeof(millrace::dlpack::VersionedTensor) == sizeof(DLManagedTensorVersioned) &&
                offsetof(millrace::dlpack::VersionedTensor, dl_tensor) ==
                    offsetof(DLManagedTensorVersioned, dl_tensor));
}

TEST(DLPack, OfNothing) {
  at::Tensor tensor =
      at::fromDLPack(to_dlpack<DLManagedTensor>({"x", millrace::DType::f32, {0, 3}, nullptr, nullptr}));
  EXPECT_EQ(tensor.sizes(), at::IntArrayRef({0, 3}));
}

}  // namespace
