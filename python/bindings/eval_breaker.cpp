// The flag by which a running interpreter learns that something is pending. Py_AddPendingCall() sets it itself from Python 3.13 on; before,
// it did so only for calls that come from the main thread, and ours do not. The only file that sees the interpreter's inside.
#include <Python.h>

#if PY_VERSION_HEX < 0x030D0000
#undef _PyGC_FINALIZED  // redefined within
#undef HAVE_STD_ATOMIC  // C's atomics are no C++; those of the compiler have the same layout
#define Py_BUILD_CORE 1
#include <internal/pycore_interp.h>
#endif

namespace millrace::python {

// Any thread, without the GIL, while the interpreter lives. Setting it for nothing costs the next check a look at what is pending.
void set_eval_breaker() {
#if PY_VERSION_HEX < 0x030D0000
  __atomic_store_n(&PyInterpreterState_Main()->ceval.eval_breaker._value, 1, __ATOMIC_RELAXED);
#endif
}

}  // namespace millrace::python
