// Stage clocks: where the time of threads and processes goes.
#include <memory>
#include <utility>
#include <vector>

#include "bindings.h"
#include "core/shared_ring.h"
#include "millrace/error.h"
#include "trace/stage_clock.h"

namespace millrace::python {
namespace {

trace::Stage stage_of(long number) {
  if (number < 0 || number >= static_cast<long>(trace::Stage::count))
    throw py::value_error("there is no stage " + std::to_string(number));
  return static_cast<trace::Stage>(number);
}

// (stage, born, until, wall by stage, CPU by stage), in nanoseconds; None: not begun.
py::object to_tuple(const trace::StageReading& reading) {
  if (reading.born_ns == 0) return py::none();
  return py::make_tuple(static_cast<int>(reading.stage), reading.born_ns, reading.until_ns,
                        py::cast(std::vector<int64_t>(reading.wall_ns.begin(), reading.wall_ns.end())),
                        py::cast(std::vector<int64_t>(reading.cpu_ns.begin(), reading.cpu_ns.end())));
}

// Called around every draw and wait: without pybind11, as its calls take three times as long.
PyObject* enter_stage(PyObject*, PyObject* number) {
  trace::StageClock* const clock = trace::current_stage_clock;
  const long stage = PyLong_AsLong(number);
  if (stage == -1 && PyErr_Occurred()) return nullptr;
  if (clock == nullptr || stage < 0) return PyLong_FromLong(-1);
  if (stage >= static_cast<long>(trace::Stage::count)) {
    PyErr_Format(PyExc_ValueError, "there is no stage %ld", stage);
    return nullptr;
  }
  return PyLong_FromLong(static_cast<long>(clock->enter(static_cast<trace::Stage>(stage))));
}

PyObject* note_ready(PyObject*, PyObject* count) {
  const long number = PyLong_AsLong(count);
  if (number == -1 && PyErr_Occurred()) return nullptr;
  if (trace::current_stage_clock != nullptr) trace::current_stage_clock->note_ready(static_cast<int>(number));
  Py_RETURN_NONE;
}

// begin and leave of one clock, as functions that hold it.
std::shared_ptr<trace::StageClock>& clock_in(PyObject* capsule) {
  return *static_cast<std::shared_ptr<trace::StageClock>*>(PyCapsule_GetPointer(capsule, nullptr));
}

PyObject* begin_next(PyObject* self, PyObject* number) {
  const long stage = PyLong_AsLong(number);
  if (stage == -1 && PyErr_Occurred()) return nullptr;
  return PyLong_FromLong(static_cast<long>(clock_in(self)->begin(static_cast<trace::Stage>(stage))));
}

PyObject* leave_next(PyObject* self, PyObject* number) {
  const long before = PyLong_AsLong(number);
  if (before == -1 && PyErr_Occurred()) return nullptr;
  clock_in(self)->leave(static_cast<trace::Stage>(before));
  Py_RETURN_NONE;
}

PyMethodDef begin_method{"begin", begin_next, METH_O, nullptr};
PyMethodDef leave_method{"leave", leave_next, METH_O, nullptr};

py::object function_of(PyMethodDef& method, const std::shared_ptr<trace::StageClock>& clock) {
  const py::capsule held(new std::shared_ptr<trace::StageClock>(clock),
                         [](void* p) { delete static_cast<std::shared_ptr<trace::StageClock>*>(p); });
  return py::reinterpret_steal<py::object>(PyCFunction_New(&method, held.ptr()));
}

PyMethodDef enter_stage_method{"enter_stage", enter_stage, METH_O, nullptr};
PyMethodDef note_ready_method{"note_ready", note_ready, METH_O, nullptr};

// Rows for the workers of one loader, in a slot of their ring that holds nothing else.
class StageBoard {
 public:
  StageBoard(const std::shared_ptr<core::SharedRing>& ring, int slot, int rows) : rows_(rows) {
    const size_t bytes = static_cast<size_t>(rows) * trace::kRowStride;
    if (slot < 0 || slot >= ring->slots() || bytes > ring->stride())
      throw Error(ErrorKind::out_of_range, std::to_string(rows) + " rows are more than slot " +
                                               std::to_string(slot) + " has room for");
    // Fresh pages are zero, and so is a row before its first use.
    memory_ = std::shared_ptr<uint8_t>(ring, ring->keep(slot, bytes));
  }

  trace::StageRow& row(int number) const {
    if (number < 0 || number >= rows_)
      throw Error(ErrorKind::out_of_range, "the board has no row " + std::to_string(number));
    return *reinterpret_cast<trace::StageRow*>(memory_.get() +
                                               static_cast<size_t>(number) * trace::kRowStride);
  }
  int64_t made() const {
    int64_t sum = 0;
    for (int i = 0; i < rows_; ++i) sum += row(i).made.load(std::memory_order_relaxed);
    return sum;
  }
  std::shared_ptr<trace::StageClock> clock(int number) const {
    return std::make_shared<trace::StageClock>(row(number), memory_);
  }

 private:
  const int rows_;
  std::shared_ptr<uint8_t> memory_;
};

py::bytes note_of(const trace::StageRow& row) { return py::bytes(row.read_note()); }

}  // namespace

py::list to_list(const std::vector<trace::StageReading>& readings) {
  py::list result;
  for (const trace::StageReading& reading : readings) result.append(to_tuple(reading));
  return result;
}

void bind_trace(py::module_& m) {
  m.attr("enter_stage") = py::reinterpret_steal<py::object>(PyCFunction_New(&enter_stage_method, nullptr));
  m.attr("note_ready") = py::reinterpret_steal<py::object>(PyCFunction_New(&note_ready_method, nullptr));
  py::class_<trace::StageClock, std::shared_ptr<trace::StageClock>>(m, "StageClock")
      .def(py::init<>())
      .def_property_static(
          "enabled", [](const py::handle&) { return trace::StageClock::enabled(); },
          [](const py::handle&, bool on) { trace::StageClock::enable(on); })
      .def(
          "attach", [](trace::StageClock& clock, long stage) { clock.attach(stage_of(stage)); },
          py::arg("stage"))
      .def_static("detach", [] { trace::StageClock::detach(); })
      .def_property_readonly(
          "begin",
          [](const std::shared_ptr<trace::StageClock>& clock) { return function_of(begin_method, clock); })
      .def_property_readonly(
          "leave",
          [](const std::shared_ptr<trace::StageClock>& clock) { return function_of(leave_method, clock); })
      .def("restart", &trace::StageClock::restart)
      .def("end", &trace::StageClock::end)
      .def("end_when_left", &trace::StageClock::end_when_left)
      .def_property_readonly("first_wait_ns", &trace::StageClock::first_wait_ns)
      .def("count_made", &trace::StageClock::count_made)
      .def("read", [](const trace::StageClock& clock) { return to_tuple(clock.read()); })
      .def_property_readonly(
          "stage",
          [](const trace::StageClock& clock) { return clock.row().stage.load(std::memory_order_relaxed); })
      .def(
          "write_note", [](trace::StageClock& clock, std::string_view text) { clock.row().write_note(text); },
          py::arg("text"))
      .def("read_note", [](const trace::StageClock& clock) { return note_of(clock.row()); })
      .def("steps", [](const trace::StageClock& clock) {
        py::list enter, leave, ready;
        const int64_t before = clock.steps_before();
        for (const trace::StageClock::Step& step : clock.steps()) {
          enter.append(step.enter_ns);
          leave.append(step.leave_ns);
          ready.append(step.ready);
        }
        return py::make_tuple(before, enter, leave, ready);
      });
  py::class_<StageBoard>(m, "StageBoard")
      .def(py::init<const std::shared_ptr<core::SharedRing>&, int, int>(), py::arg("ring"), py::arg("slot"),
           py::arg("rows"))
      .def("clock", &StageBoard::clock, py::arg("row"))
      .def_property_readonly("made", &StageBoard::made)
      .def(
          "read", [](const StageBoard& board, int row) { return to_tuple(trace::read_row(board.row(row))); },
          py::arg("row"))
      .def(
          "read_note", [](const StageBoard& board, int row) { return note_of(board.row(row)); },
          py::arg("row"))
      .def(
          "end", [](const StageBoard& board, int row) { board.row(row).end_for_it(base::now_ns()); },
          py::arg("row"));
  m.attr("NOTE_BYTES") = trace::StageRow::kNoteBytes;
}

}  // namespace millrace::python
