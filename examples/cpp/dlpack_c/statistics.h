// Another library, in C: statistics of tensors that come by DLPack. It knows nothing of millrace.
#pragma once

#include <stdint.h>

// DLPack's structures, as its header has them (https://dmlc.github.io/dlpack). A program that has
// <dlpack/dlpack.h> includes that.
typedef struct {
  int32_t device_type, device_id;
} DLDevice;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

#ifdef __cplusplus
extern "C" {
#endif

// The mean of a dense float tensor; takes it, and gives it back by its deleter. NaN for what is not one.
double mean_of(DLManagedTensor* tensor);

#ifdef __cplusplus
}
#endif
