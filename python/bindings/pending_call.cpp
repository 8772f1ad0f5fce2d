// Asks the main thread to call a function between two instructions, from a thread that the interpreter does
// not know. The only file that uses the interpreter's internals.
//
// Before Python 3.12, Py_AddPendingCall() reads, without the GIL, the state of whichever thread has the GIL
// at that moment: a thread that ends frees its state meanwhile, and the bytes read there are then taken for
// the interpreter. So the function below it is called, which takes the interpreter and no thread.
// Before 3.13, the flag by which a running interpreter learns of the call was set only when it came from the
// main thread, and no public function sets it from another one that has not the GIL. Without the write below,
// a loop of Python alone is looked at when the main thread takes the GIL next, which may be never:
// on 3.11 three tests of test_stacks.py and test_stacks_safety.py failed without it.
//
// Invariant: nothing here, and nothing that it calls, touches the state of any thread; the main interpreter
// outlives the caller, which is joined before it ends (StackLooks::pause, by atexit), or waits outside of any
// stretch.
#include <Python.h>

#if PY_VERSION_HEX < 0x030D0000
#undef _PyGC_FINALIZED  // redefined within
#undef HAVE_STD_ATOMIC  // C's atomics are no C++; those of the compiler have the same layout
#define Py_BUILD_CORE 1
#include <internal/pycore_interp.h>
#endif

#if PY_VERSION_HEX < 0x030C0000
extern "C" PyAPI_FUNC(int) _PyEval_AddPendingCall(PyInterpreterState*, int (*)(void*), void*);
#endif

namespace millrace::python {

// Asks the main thread to call `call`. Any thread, without the GIL, while the interpreter lives. False: too
// much is pending. A flag set for nothing costs the next check a look at the pending calls.
bool ask_main_thread(int (*call)(void*)) {
#if PY_VERSION_HEX < 0x030C0000
  if (_PyEval_AddPendingCall(PyInterpreterState_Main(), call, nullptr) != 0) return false;
#else
  if (Py_AddPendingCall(call, nullptr) != 0) return false;
#endif
#if PY_VERSION_HEX < 0x030D0000
  __atomic_store_n(&PyInterpreterState_Main()->ceval.eval_breaker._value, 1, __ATOMIC_RELAXED);
#endif
  return true;
}

}  // namespace millrace::python
