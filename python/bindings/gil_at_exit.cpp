#include "gil_at_exit.h"

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

// The linker's names: __real_f is f, and every call of f in this module is one of __wrap_f.
extern "C" {
void __real_PyEval_RestoreThread(PyThreadState*);
void __real_PyEval_AcquireThread(PyThreadState*);
PyGILState_STATE __real_PyGILState_Ensure();
void __wrap_PyEval_RestoreThread(PyThreadState*);
void __wrap_PyEval_AcquireThread(PyThreadState*);
PyGILState_STATE __wrap_PyGILState_Ensure();
}

namespace {

template <class Take>
auto with_gil_or_never(Take take) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();  // to leave this block would abort
  }
}

}  // namespace

void __wrap_PyEval_RestoreThread(PyThreadState* state) {
  with_gil_or_never([=] { __real_PyEval_RestoreThread(state); });
}

void __wrap_PyEval_AcquireThread(PyThreadState* state) {
  with_gil_or_never([=] { __real_PyEval_AcquireThread(state); });
}

PyGILState_STATE __wrap_PyGILState_Ensure() { return with_gil_or_never(__real_PyGILState_Ensure); }

namespace millrace::python {

bool interpreter_is_going() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace millrace::python
