// Statistics of the data that is fed, and drift.
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "drift_dicts.h"
#include "millrace/error.h"
#include "tensors/tensor.h"
#include "tensors/tensor_memory.h"
#include "tuning/drift_examiner.h"

namespace millrace::python {
namespace {

// (name, tensors, their dtype's name, "data" | "ragged" | "lengths")
using FieldTuple = std::tuple<std::string, std::vector<py::object>, std::string, std::string>;

base::DType type_named(const std::string& name) {
  const auto type = base::dtype_named(name);
  if (!type) throw py::value_error("there are no statistics of " + name + " numbers");
  return *type;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
  return strides;
}

tuning::ExamJob job_of(int64_t step, bool new_epoch, const std::vector<FieldTuple>& fields) {
  // The thread reads while the user may resize the tensors, or give them other memory.
  struct Held {
    std::vector<tensors::TensorSpan> spans;
    std::vector<std::shared_ptr<const void>> memory;
  };
  auto held = std::make_shared<Held>();
  tuning::ExamJob job;
  job.step = step;
  job.new_epoch = new_epoch;
  for (const auto& [name, tensors, dtype, kind] : fields) {
    tuning::ExamField& field = job.fields.emplace_back();
    field.name = name;
    field.is_lengths = kind == "lengths";
    for (const py::object& tensor : tensors) {
      tensors::TensorSpan& span = held->spans.emplace_back(tensor.ptr());
      if (!span.is_copy()) {
        tensors::HeldMemory memory = tensors::hold_memory(tensor.ptr());
        if (!memory.stays) span.copy();
        held->memory.push_back(std::move(memory.keeper));
      }
      tuning::BatchView& view = field.views.emplace_back();
      view.data = static_cast<const uint8_t*>(span.data());
      view.type = type_named(dtype);
      view.sizes = span.field().sizes;
      view.strides = span.field().strides.empty() ? dense_strides(view.sizes) : span.field().strides;
      view.ragged = kind == "ragged";
      if (view.ragged) {
        view.sizes.insert(view.sizes.begin(), 1);
        view.strides.insert(view.strides.begin(), 0);
      }
    }
  }
  job.keeper = std::move(held);
  return job;
}

using OwnedExaminer = std::unique_ptr<tuning::DriftExaminer, tuning::DriftExaminer::End>;

OwnedExaminer make_examiner(const tuning::DriftStats* reference, size_t queue, int64_t rows, int64_t values,
                            double false_alarms, double least) {
  if (rows < 1 || values < 16 || !(false_alarms > 0 && false_alarms < 1) || !(least > 0))
    throw py::value_error(
        "an examination needs 1 row and 16 numbers at least, a probability below 1 and a positive factor");
  return OwnedExaminer(new tuning::DriftExaminer(tuning::SampleLimits{rows, values}, queue, reference,
                                                 tuning::DriftOptions{false_alarms, least}));
}

}  // namespace

void bind_tuning(py::module_& m) {
  using py::arg;
  using Release = py::call_guard<py::gil_scoped_release>;
  m.def(
      "field_layout",
      [](const std::vector<int64_t>& sizes, const std::string& dtype, bool ragged) {
        return to_dict(tuning::layout_of({nullptr, type_named(dtype), sizes, dense_strides(sizes), ragged}));
      },
      arg("sizes"), arg("dtype"), arg("ragged") = false);
  py::class_<tuning::DriftStats>(m, "DriftStats")
      .def(py::init(&drift_stats_of), arg("dict"))
      .def("to_dict", [](const tuning::DriftStats& stats) { return to_dict(stats); })
      .def("merge", &tuning::DriftStats::merge, arg("other"), Release());
  py::class_<tuning::DriftExaminer, OwnedExaminer>(m, "DriftExaminer")
      .def(py::init(&make_examiner), arg("reference") = nullptr, arg("queue") = 2, arg("rows") = 256,
           arg("values") = 256, arg("false_alarms") = 1e-3, arg("least") = 1.0)
      .def(
          "submit",
          [](tuning::DriftExaminer& examiner, int64_t step, bool new_epoch,
             const std::vector<FieldTuple>& fields, bool wait) {
            tuning::ExamJob job = job_of(step, new_epoch, fields);
            const py::gil_scoped_release release;
            return examiner.submit(std::move(job), wait);
          },
          arg("step"), arg("new_epoch"), arg("fields"), arg("wait") = false)
      .def("finish", &tuning::DriftExaminer::finish, Release())
      .def("statistics", &tuning::DriftExaminer::statistics, Release())
      .def("take_alarms",
           [](tuning::DriftExaminer& examiner) {
             py::list result;
             for (const tuning::DriftAlarm& alarm : examiner.take_alarms()) result.append(to_dict(alarm));
             return result;
           })
      .def("counts",
           [](tuning::DriftExaminer& examiner) {
             const tuning::ExaminerCounts counts = examiner.counts();
             py::dict dict;
             dict["examined"] = counts.examined;
             dict["dropped"] = counts.dropped;
             dict["seconds"] = counts.seconds;
             return dict;
           })
      .def("close", &tuning::DriftExaminer::close, Release());
}

}  // namespace millrace::python
