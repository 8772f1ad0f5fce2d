// TensorFields: what torch's C functions say of a tensor, in a quarter of the time that DLPack's table takes.
//
// These functions (aoti_torch_get_*) are those that torch keeps for compiled models; they take an
// at::Tensor's address, which lies inside the Python object. Where it lies is found by torch.Tensor._cdata.
// Whether a tensor asks for gradients is a function with a mangled name. None of this is promised, so all of
// it is tried on tensors that are made for it, against DLPack, and not used where anything differs. All need
// the GIL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "tensors/tensor_view.h"

namespace millrace::tensors {

class TensorFields {
 public:
  // None where this torch has other functions, or other tensors. After connect_to_torch().
  static std::optional<TensorFields> of_torch();

  // As read_plain(), of a torch.Tensor. Anything but a strided tensor of the host is turned away before its
  // memory is asked for. Requires: no nested tensor; torch's functions would complain of one on stderr.
  bool read(_object* tensor, TensorView& view) const;

 private:
  bool find_functions();
  bool find_handle(_object* tensor);

  using Number = int32_t (*)(void*, int32_t*);
  using Count = int32_t (*)(void*, int64_t*);
  using Numbers = int32_t (*)(void*, int64_t**);
  using Data = int32_t (*)(void*, void**);
  using Asks = bool (*)(const void*);

  Number device_ = nullptr, layout_ = nullptr, dtype_ = nullptr;
  Count dims_ = nullptr;
  Numbers sizes_ = nullptr, strides_ = nullptr;
  Data data_ = nullptr;
  Asks requires_grad_ = nullptr;
  int32_t host_ = 0, strided_ = 0;
  std::array<uint8_t, 64> types_{};  // by torch's number: a DType's and 1; 0: none
  size_t handle_at_ = 0;             // in the Python object, in bytes
};

}  // namespace millrace::tensors
