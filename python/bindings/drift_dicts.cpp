#include "drift_dicts.h"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "millrace/error.h"

namespace millrace::python {
namespace {

namespace py = pybind11;

using MomentsTuple = std::tuple<int64_t, double, double>;

MomentsTuple to_tuple(const tuning::Moments& moments) {
  return {moments.count, moments.mean + moments.low, moments.m2};
}

tuning::Moments moments_of(const MomentsTuple& tuple) {
  return {std::get<0>(tuple), std::get<1>(tuple), std::get<2>(tuple)};
}

void check(bool right, const char* what) {
  if (!right) throw Error(ErrorKind::invalid_argument, std::string("the profile is damaged: ") + what);
}

template <class T>
T value_of(const py::dict& dict, const char* name) {
  return py::cast<T>(dict[name]);
}

py::dict series_dict(const tuning::SeriesStats& stats) {
  py::dict dict;
  dict["count"] = stats.values.count;
  dict["mean"] = stats.values.mean + stats.values.low;
  dict["m2"] = stats.values.m2;
  dict["min"] = stats.values.count > 0 ? py::object(py::float_(stats.least)) : py::none();
  dict["max"] = stats.values.count > 0 ? py::object(py::float_(stats.most)) : py::none();
  dict["nan"] = stats.nan;
  dict["infinite"] = stats.infinite;
  dict["zeros"] = stats.zeros;
  py::list quantiles;
  for (const double q : {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99})
    quantiles.append(stats.histogram.quantile(q) + stats.frame.origin);
  dict["quantiles"] = quantiles;  // for readers alone
  dict["frame"] = std::make_tuple(stats.frame.center, stats.frame.scale, stats.frame.origin);
  py::list histogram, samples, between, reach;
  for (int bucket = 0; bucket < tuning::ValueHistogram::kBuckets; ++bucket)
    if (const uint64_t count = stats.histogram.count(bucket))
      histogram.append(std::make_tuple(bucket - tuning::ValueHistogram::kZero, count));
  for (int f = 0; f < tuning::kFeatures; ++f) {
    samples.append(to_tuple(stats.samples[static_cast<size_t>(f)]));
    between.append(to_tuple(stats.between[static_cast<size_t>(f)]));
    if (stats.samples[0].count > 0)
      reach.append(
          std::make_tuple(stats.lowest[static_cast<size_t>(f)], stats.highest[static_cast<size_t>(f)]));
  }
  dict["histogram"] = histogram;
  dict["samples"] = samples;
  dict["between"] = between;
  dict["reach"] = reach;
  dict["batches"] = stats.batches;
  return dict;
}

tuning::SeriesStats series_of(const py::dict& dict) {
  tuning::SeriesStats stats;
  stats.values = {value_of<int64_t>(dict, "count"), value_of<double>(dict, "mean"),
                  value_of<double>(dict, "m2")};
  if (stats.values.count > 0) {
    stats.least = value_of<double>(dict, "min");
    stats.most = value_of<double>(dict, "max");
  }
  stats.nan = value_of<int64_t>(dict, "nan");
  stats.infinite = value_of<int64_t>(dict, "infinite");
  stats.zeros = value_of<int64_t>(dict, "zeros");
  std::tie(stats.frame.center, stats.frame.scale, stats.frame.origin) =
      value_of<std::tuple<double, double, double>>(dict, "frame");
  check(stats.frame.scale > 0, "a frame has no scale");
  for (const auto& [place, count] : value_of<std::vector<std::pair<int64_t, uint64_t>>>(dict, "histogram")) {
    check(place >= -tuning::ValueHistogram::kSide && place <= tuning::ValueHistogram::kSide,
          "a histogram has a bucket that there is not");
    stats.histogram.add(static_cast<int>(place) + tuning::ValueHistogram::kZero, count);
  }
  const auto samples = value_of<std::vector<MomentsTuple>>(dict, "samples"),
             between = value_of<std::vector<MomentsTuple>>(dict, "between");
  check(samples.size() == tuning::kFeatures && between.size() == tuning::kFeatures,
        "a series has another number of features");
  for (size_t f = 0; f < tuning::kFeatures; ++f) {
    stats.samples[f] = moments_of(samples[f]);
    stats.between[f] = moments_of(between[f]);
  }
  const auto reach = value_of<std::vector<std::pair<double, double>>>(dict, "reach");
  check(reach.size() == (stats.samples[0].count > 0 ? tuning::kFeatures : 0),
        "a series has another number of features");
  for (size_t f = 0; f < reach.size(); ++f) std::tie(stats.lowest[f], stats.highest[f]) = reach[f];
  stats.batches = value_of<int64_t>(dict, "batches");
  return stats;
}

py::dict field_dict(const tuning::FieldStats& field) {
  py::dict dict;
  dict["type"] = base::dtype_name(field.type);
  dict["row_shape"] = field.row_sizes;
  dict["layout"] = to_dict(field.layout);
  dict["samples"] = field.samples;
  dict["batches"] = field.batches;
  dict["other_layouts"] = field.other_layouts;
  py::list series, counts;
  for (const tuning::SeriesStats& each : field.series) series.append(series_dict(each));
  for (const tuning::ValueCounts& each : field.counts) {
    py::dict entry;
    entry["counts"] = each.most_frequent(SIZE_MAX);
    entry["total"] = each.total();
    entry["error"] = each.error();
    counts.append(entry);
  }
  dict["series"] = series;
  dict["lengths"] = field.lengths ? py::object(series_dict(*field.lengths)) : py::none();
  dict["counts"] = counts;
  dict["together"] = std::make_tuple(field.together.count, field.together.mean, field.together.m2);
  return dict;
}

tuning::FieldStats field_of(const py::dict& dict) {
  tuning::FieldStats field;
  const auto type = base::dtype_named(value_of<std::string>(dict, "type"));
  check(type.has_value(), "a field has an unknown type");
  field.type = *type;
  field.row_sizes = value_of<std::vector<int64_t>>(dict, "row_shape");
  const auto layout = value_of<py::dict>(dict, "layout");
  field.layout.series_axis = value_of<int>(layout, "series_axis");
  field.layout.series = value_of<int64_t>(layout, "series");
  field.layout.channels = value_of<bool>(layout, "channels");
  field.layout.counted = value_of<bool>(layout, "counted");
  field.layout.padded = value_of<bool>(layout, "padded");
  field.samples = value_of<int64_t>(dict, "samples");
  field.batches = value_of<int64_t>(dict, "batches");
  field.other_layouts = value_of<int64_t>(dict, "other_layouts");
  for (const auto& each : value_of<std::vector<py::dict>>(dict, "series"))
    field.series.push_back(series_of(each));
  check(!field.series.empty() && static_cast<int64_t>(field.series.size()) == field.layout.series,
        "a field has another number of series");
  if (!dict["lengths"].is_none()) field.lengths = series_of(value_of<py::dict>(dict, "lengths"));
  for (const auto& each : value_of<std::vector<py::dict>>(dict, "counts"))
    field.counts.emplace_back().set(value_of<std::vector<std::pair<int64_t, uint64_t>>>(each, "counts"),
                                    value_of<uint64_t>(each, "total"), value_of<uint64_t>(each, "error"));
  check(field.counts.size() == (field.layout.counted ? field.series.size() : 0),
        "a field has counts of another number of series");
  std::tie(field.together.count, field.together.mean, field.together.m2) =
      value_of<std::tuple<int64_t, std::vector<double>, std::vector<double>>>(dict, "together");
  const size_t channels = field.together.mean.size();
  check(field.together.m2.size() == channels * channels && (channels == 0 || channels == field.series.size()),
        "a field's channels are of another number");
  return field;
}

}  // namespace

py::dict to_dict(const tuning::FieldLayout& layout) {
  py::dict dict;
  dict["series_axis"] = layout.series_axis;
  dict["series"] = layout.series;
  dict["channels"] = layout.channels;
  dict["counted"] = layout.counted;
  dict["padded"] = layout.padded;
  return dict;
}

py::dict to_dict(const tuning::DriftStats& stats) {
  py::dict dict, fields, repeats;
  dict["samples"] = stats.samples;
  dict["batches"] = stats.batches;
  for (const auto& [name, field] : stats.fields)
    if (field.begun()) fields[py::str(name)] = field_dict(field);
  dict["fields"] = fields;
  repeats["samples"] = stats.repeats.samples;
  repeats["repeated"] = stats.repeats.repeated;
  repeats["recent"] = stats.repeats.recent;
  repeats["comparisons"] = stats.repeats.comparisons;
  repeats["distinct"] = stats.repeats.distinct();
  repeats["registers"] = py::bytes(reinterpret_cast<const char*>(stats.repeats.registers.data()),
                                   stats.repeats.registers.size());
  dict["repeats"] = repeats;
  return dict;
}

tuning::DriftStats drift_stats_of(const py::dict& dict) {
  tuning::DriftStats stats;
  stats.samples = value_of<int64_t>(dict, "samples");
  stats.batches = value_of<int64_t>(dict, "batches");
  for (const auto& [name, field] : value_of<py::dict>(dict, "fields"))
    stats.fields[py::cast<std::string>(name)] = field_of(py::cast<py::dict>(field));
  const auto repeats = value_of<py::dict>(dict, "repeats");
  stats.repeats.samples = value_of<int64_t>(repeats, "samples");
  stats.repeats.repeated = value_of<int64_t>(repeats, "repeated");
  stats.repeats.recent = value_of<int64_t>(repeats, "recent");
  stats.repeats.comparisons = value_of<int64_t>(repeats, "comparisons");
  const auto registers = value_of<std::string>(repeats, "registers");
  check(registers.size() == tuning::Repeats::kRegisters, "its registers are of another number");
  std::copy(registers.begin(), registers.end(), stats.repeats.registers.begin());
  return stats;
}

py::dict to_dict(const tuning::DriftAlarm& alarm) {
  py::dict dict;
  dict["field"] = alarm.field;
  dict["kind"] = alarm.kind;
  dict["series"] = alarm.series;
  dict["expected"] = alarm.expected;
  dict["seen"] = alarm.seen;
  dict["label"] = alarm.label;
  dict["what"] = alarm.what;
  dict["order"] = alarm.order;
  dict["log_p"] = alarm.log_p;
  dict["since"] = alarm.since;
  dict["step"] = alarm.step;
  dict["samples"] = alarm.samples;
  dict["ended"] = alarm.ended;
  return dict;
}

}  // namespace millrace::python
