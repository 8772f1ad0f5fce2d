// Puts a thread to sleep if it asks for the GIL while the interpreter shuts down.
//
// Before Python 3.14 the interpreter ends such a thread, by an unwinding that no destructor may let pass: the
// process aborts ("terminate called without an active exception"). A daemon thread inside native work at exit
// is such a thread, and so is an engine's thread that calls Python. In this module it sleeps for ever
// instead, as it does from 3.14 on, until the process has gone: nothing on its stack is destroyed, which is
// right, because no Python object may be touched any more. Join threads that may ask for the GIL before the
// interpreter goes (python/millrace/_loader/engine.py), or not at all: interpreter_is_going() tells.
//
// gil_at_exit.cpp wraps the interpreter's functions that take the GIL, for all code that is linked into this
// module, pybind11's classes included (the linker's --wrap, in CMakeLists.txt). Cost: a call.
#pragma once

namespace millrace::python {

// Any thread. From when on only the thread that ends the interpreter gets the GIL.
bool interpreter_is_going();

}  // namespace millrace::python
