// Statistics of feeds as Python dicts of JSON's types (but for the registers, which are bytes), and back.
#pragma once

#include <pybind11/pybind11.h>

#include "tuning/drift_detector.h"
#include "tuning/field_stats.h"

namespace millrace::python {

pybind11::dict to_dict(const tuning::FieldLayout& layout);
pybind11::dict to_dict(const tuning::DriftStats& stats);
pybind11::dict to_dict(const tuning::DriftAlarm& alarm);
// Throws KeyError, cast errors or Error(invalid_argument) for what to_dict() has not made.
tuning::DriftStats drift_stats_of(const pybind11::dict& dict);

}  // namespace millrace::python
