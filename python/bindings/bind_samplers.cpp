// Orders: objects that answer `at(positions)` with indices, as int64 arrays.
#include <span>

#include "bindings.h"
#include "samplers/alias_table.h"
#include "samplers/counter_draws.h"
#include "samplers/fair_schedule.h"
#include "samplers/keyed_permutation.h"
#include "samplers/mixture.h"
#include "samplers/random_permutation.h"
#include "samplers/segments.h"
#include "samplers/shuffle_order.h"

namespace millrace::python {
namespace {

using Numbers = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;
using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

template <class T>
std::span<const T> view(const py::array_t<T, py::array::c_style | py::array::forcecast>& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

Numbers to_array(const std::vector<int64_t>& numbers) {
  return Numbers(static_cast<py::ssize_t>(numbers.size()), numbers.data());
}

// Below this, giving the GIL away and asking for it again costs more than the work.
constexpr py::ssize_t kLongWork = 4096;

template <class Order>
Numbers at(Order& order, const Numbers& positions) {
  Numbers result(positions.size());
  const std::span<int64_t> out(result.mutable_data(), static_cast<size_t>(result.size()));
  if (positions.size() < kLongWork) {
    order.at(view(positions), out);
  } else {
    py::gil_scoped_release release;
    order.at(view(positions), out);
  }
  return result;
}

}  // namespace

void bind_samplers(py::module_& m) {
  using py::arg;
  py::class_<samplers::RandomPermutation>(m, "RandomPermutation")
      .def(py::init<int64_t, uint64_t>(), arg("n"), arg("seed"))
      .def(
          "at",
          [](samplers::RandomPermutation& order, const Numbers& positions) {
            // Even one question may draw everything before it.
            Numbers result(positions.size());
            py::gil_scoped_release release;
            order.at(view(positions), {result.mutable_data(), static_cast<size_t>(result.size())});
            return result;
          },
          arg("positions"));
  py::class_<samplers::KeyedPermutation>(m, "KeyedPermutation")
      .def(py::init<int64_t, uint64_t, uint64_t, uint64_t>(), arg("n"), arg("seed"), arg("epoch"),
           arg("stream") = 0)
      .def("at", &at<samplers::KeyedPermutation>, arg("positions"));
  py::class_<samplers::AliasTable>(m, "AliasTable")
      .def(py::init([](const Doubles& weights, uint64_t seed, uint64_t epoch) {
             return samplers::AliasTable(view(weights), seed, epoch);
           }),
           arg("weights"), arg("seed"), arg("epoch"))
      .def("at", &at<samplers::AliasTable>, arg("positions"));
  m.def(
      "weighted_order",
      [](const Doubles& weights, int64_t count, uint64_t seed, uint64_t epoch) {
        return to_array(samplers::weighted_order(view(weights), count, seed, epoch));
      },
      arg("weights"), arg("count"), arg("seed"), arg("epoch"));
  m.def(
      "size_draw",
      [](const py::int_& seed, uint64_t epoch, uint64_t position, uint64_t end) {
        const samplers::CounterDraws draws(make_key(seed, 0, 0, 0).seed, epoch, samplers::DrawsFor::sizes);
        return samplers::scaled(draws.at(position).first, end);
      },
      arg("seed"), arg("epoch"), arg("position"), arg("end"));
  py::class_<samplers::ShuffleOrder>(m, "ShuffleOrder")
      .def(py::init<int64_t, int64_t, uint64_t, uint64_t>(), arg("n"), arg("size"), arg("seed"), arg("epoch"))
      .def("at", &at<samplers::ShuffleOrder>, arg("positions"))
      .def(
          "held", [](samplers::ShuffleOrder& order, int64_t step) { return to_array(order.held(step)); },
          arg("step"));
  py::class_<samplers::ShardOrder>(m, "ShardOrder")
      .def(py::init([](const Numbers& lengths, uint64_t seed, uint64_t epoch) {
             return samplers::ShardOrder(view(lengths), seed, epoch);
           }),
           arg("lengths"), arg("seed"), arg("epoch"))
      .def("at", &at<samplers::ShardOrder>, arg("positions"));
  py::class_<samplers::SegmentShuffle>(m, "SegmentShuffle")
      .def(py::init([](const Numbers& lengths, uint64_t seed, uint64_t epoch) {
             return samplers::SegmentShuffle(view(lengths), seed, epoch);
           }),
           arg("lengths"), arg("seed"), arg("epoch"))
      .def("at", &at<samplers::SegmentShuffle>, arg("positions"));
  py::class_<samplers::Mixture>(m, "Mixture")
      .def(py::init([](const Numbers& lengths, std::vector<uint64_t> weights, uint64_t seed, uint64_t epoch,
                       bool shuffle, int64_t start, std::vector<int64_t> counts) {
             return samplers::Mixture(view(lengths), std::move(weights), seed, epoch, shuffle, start,
                                      std::move(counts));
           }),
           arg("lengths"), arg("weights"), arg("seed"), arg("epoch"), arg("shuffle") = true, arg("start") = 0,
           arg("counts") = std::vector<int64_t>{})
      .def("at", &at<samplers::Mixture>, arg("positions"))
      .def("counts_at", &samplers::Mixture::counts_at, arg("position"));
}

}  // namespace millrace::python
