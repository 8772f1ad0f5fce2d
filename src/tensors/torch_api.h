// TorchApi: the functions and facts of the torch that is running. Nothing here is linked to torch, or
// compiled against it: one build serves all its versions.
//
// Tensors are read and made by DLPack's table of C functions (dlpack.h), which torch has since 2.10. What
// DLPack does not say (gradients, negative bits) is asked of torch.Tensor's own C functions, found once where
// Python finds them. What neither says is asked by name of torch's shared libraries (torch_symbol()); these
// names are no promise of torch's, so the code that asks goes on without them. All need the GIL.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "tensors/dlpack.h"

namespace millrace::tensors {

// An attribute of a class written in C, read without looking it up: some 10 ns instead of 50.
class TensorFlag {
 public:
  // `descriptor`: of the class; a getter or a method without arguments.
  explicit TensorFlag(PyObject* descriptor = nullptr) : descriptor_(descriptor) {}
  bool operator()(PyObject* tensor) const;  // throws pybind11::error_already_set

 private:
  PyObject* descriptor_;
};

class TensorFields;

struct TorchApi {
  const dlpack::ExchangeApi* exchange = nullptr;
  PyTypeObject* tensor = nullptr;  // torch.Tensor
  TensorFlag requires_grad, is_neg, is_conj;
  PyObject *torch = nullptr, *stack = nullptr, *dispatch_modes = nullptr,
           *function_modes = nullptr;    // functions: how many are active
  const TensorFields* fields = nullptr;  // null: this torch's tensors are read by `exchange` alone
};

// Imports torch and fills what torch_api() gives; once, when a module that uses it is imported. Throws
// pybind11::error_already_set for a torch that has no such table.
void connect_to_torch();
const TorchApi& torch_api();

// An address in a shared library that torch has loaded ("libc10.so"), or null. Needs no GIL.
void* torch_symbol(const char* library, const char* name);

// A sentence for each function asked for by name that this torch lacks, with the consequence.
std::vector<std::string> missing_in_torch();

}  // namespace millrace::tensors
