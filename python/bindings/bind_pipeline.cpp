// ImagePipeline, and its decisions as dicts.
#include <cstring>

#include "bindings.h"
#include "chain_dicts.h"
#include "millrace/error.h"
#include "tensors/tensor.h"
#include "transforms/ops/operations.h"

namespace millrace::python {
namespace {

// Writes a decision into a dict, as Operation::describe() tells it.
struct DictWriter {
  py::dict& dict;

  template <class T>
  DictWriter& operator()(const char* name, const T& value) {
    dict[name] = value;
    return *this;
  }
  DictWriter& operator()(const char* name, Interpolation value) { return (*this)(name, name_of(value)); }
  DictWriter& operator()(const char* name, const std::vector<transforms::AugmentStep>& steps) {
    py::list ops;
    for (const transforms::AugmentStep& step : steps) {
      py::dict made;
      made["kind"] = millrace::name_of(step.kind);
      made["value"] = step.value;
      if (step.inverse != transforms::kNoMap) {
        made["inverse"] = py::cast(step.inverse);
        made["interpolation"] = name_of(step.interpolation);
      }
      ops.append(made);
    }
    return (*this)(name, ops);
  }
  DictWriter& operator()(const char* name, const std::vector<transforms::MixParams::Copy>& copies) {
    py::list list;
    for (const transforms::MixParams::Copy& copy : copies) {
      py::dict made;
      made["share"] = copy.share;
      DictWriter{made}("ops", copy.steps);
      list.append(made);
    }
    return (*this)(name, list);
  }
  DictWriter& operator()(const char* name, const std::vector<base::Rect>& boxes) {
    py::list list;
    for (const base::Rect& box : boxes) list.append(py::make_tuple(box.top, box.left, box.height, box.width));
    return (*this)(name, list);
  }
  DictWriter& box(const base::Rect& box) {
    dict["top"] = box.top;
    dict["left"] = box.left;
    dict["height"] = box.height;
    dict["width"] = box.width;
    return *this;
  }
  DictWriter& colors(const transforms::ColorJitterParams& color) {
    py::list order;
    for (const transforms::ColorOp op : color.order) {
      if (op == transforms::ColorOp::none) continue;
      const transforms::AugmentStep step = color.step(op);
      order.append(millrace::name_of(step.kind));
      dict[millrace::name_of(step.kind)] = step.value;
    }
    return (*this)("order", order);
  }

  static const char* name_of(Interpolation value) {
    return transforms::kNamesOf<Interpolation>[static_cast<size_t>(value)];
  }
};

// The types of a transform's fields, by name.
struct FieldTypes {
  py::dict& types;

  template <class... T>
  FieldTypes& operator()(std::string name, T&... values) {
    if (name.back() == '?') name.pop_back();
    types[name.c_str()] = sizeof...(values) > 1 ? py::object(py::make_tuple(type_of(values)...))
                                                : py::object(py::make_tuple(type_of(values)...)[0]);
    return *this;
  }

 private:
  static std::string type_of(bool) { return "bool"; }
  static std::string type_of(int32_t) { return "int"; }
  static std::string type_of(double) { return "float"; }
  static std::string type_of(const Range&) { return "range"; }
  static std::string type_of(Interpolation) { return "interpolation"; }
  static std::string type_of(const std::array<uint8_t, 3>&) { return "color"; }
  static std::string type_of(const std::array<double, 2>&) { return "point"; }
  template <class T>
  static std::string type_of(const std::optional<T>&) {
    return "optional " + type_of(T{});
  }
  template <class T>
  static std::string type_of(const T&) {
    return "other";
  }
};

// {"policies": the kinds of operations that a policy may have, in the engine's order,
//  "transforms": {a dict's "op": {"name": torchvision's, if it has one, "fields": {name: type}}}}
py::dict operations() {
  py::list kinds;
  for (size_t kind = 0; kind < kAugmentNames.size(); ++kind)
    if (is_of_policies(static_cast<AugmentKind>(kind))) kinds.append(kAugmentNames[kind]);
  py::dict list;
  transforms::any_transform([&]<class T>(std::type_identity<T>) {
    using transforms::Operation;
    py::dict types;
    FieldTypes write{types};
    T t{};
    Operation<T>::fields(write, t);
    py::dict made;
    if constexpr (requires { Operation<T>::name; }) made["name"] = Operation<T>::name;
    made["fields"] = types;
    list[Operation<T>::key] = made;
    return false;
  });
  py::dict all;
  all["policies"] = kinds;
  all["transforms"] = list;
  return all;
}

py::dict decision(const transforms::OpParams& op) {
  py::dict d;
  transforms::any_transform([&]<class T>(std::type_identity<T>) {
    using transforms::Operation;
    if (op.kind != transforms::kKindOf<T>) return false;
    d["op"] = Operation<T>::key;
    DictWriter write{d};
    if constexpr (requires { Operation<T>::describe(write, op); }) Operation<T>::describe(write, op);
    return true;
  });
  return d;
}

// Runs the chain on pixels the caller has: H x W x 3 or 4 bytes, of which the plan's region is copied once.
py::object apply(const Pipeline& pipeline,
                 const py::array_t<uint8_t, py::array::c_style | py::array::forcecast>& pixels,
                 const py::int_& seed, uint64_t epoch, int64_t index, uint32_t occurrence) {
  if (pixels.ndim() != 3 || (pixels.shape(2) != 3 && pixels.shape(2) != 4) || pixels.shape(0) == 0 ||
      pixels.shape(1) == 0)
    throw py::value_error(
        "pixels must be a non-empty array of shape (height, width, 3 or 4) and dtype uint8");
  const auto height = static_cast<int32_t>(pixels.shape(0)), width = static_cast<int32_t>(pixels.shape(1));
  const auto channels = pixels.shape(2);
  const transforms::ImagePipeline& native = *pipeline.native;
  const transforms::SampleParams params =
      native.draw(width, height, 1, make_key(seed, epoch, index, occurrence));
  const auto scratch = transforms::ImagePipeline::make_scratch();
  const transforms::ImagePipeline::Need need = native.plan(width, height, params, *scratch);
  transforms::PixelBuffer buffer;
  const base::ImageView region = buffer.resize(need.region.width, need.region.height);
  void* out = nullptr;
  py::object tensor = new_row_tensor(need.shape, native.output_type(), &out);
  const uint8_t* source = pixels.data();
  py::gil_scoped_release release;
  for (int32_t y = 0; y < region.height; ++y) {
    const uint8_t* from = source + (int64_t{need.region.top + y} * width + need.region.left) * channels;
    uint8_t* to = region.row(y);
    for (int32_t x = 0; x < region.width; ++x, from += channels, to += base::kPixelBytes)
      std::memcpy(to, from, 3);
  }
  native.apply(region, *scratch, out);
  return tensor;
}

}  // namespace

Pipeline::Pipeline(py::list list) : chain(std::move(list)) {
  std::vector<TransformSpec> specs;
  for (const py::handle op : chain) specs.push_back(make_spec(op.cast<py::dict>()));
  native = transforms::ImagePipeline::create(std::move(specs));
}

py::list to_dicts(const transforms::SampleParams& params) {
  py::list result;
  for (const transforms::OpParams& op : params.ops) result.append(decision(op));
  return result;
}

py::object new_row_tensor(const transforms::OutputShape& shape, base::DType type, void** data) {
  return py::reinterpret_steal<py::object>(
      tensors::new_tensor({shape.channels, shape.height, shape.width}, type, data));
}

base::SampleKey make_key(const py::int_& seed, uint64_t epoch, int64_t index, uint32_t occurrence) {
  const uint64_t bits = PyLong_AsUnsignedLongLongMask(seed.ptr());
  if (PyErr_Occurred()) throw py::error_already_set();
  return {bits, epoch, index, occurrence};
}

void bind_pipeline(py::module_& m) {
  m.def("operations", &operations);
  py::class_<Pipeline>(m, "ImagePipeline")
      .def(py::init<py::list>(), py::arg("chain"))
      .def_property_readonly("output_dtype",
                             [](const Pipeline& p) { return base::dtype_name(p.native->output_type()); })
      .def_property_readonly("fixed_shape",
                             [](const Pipeline& p) -> py::object {
                               const auto shape = p.native->fixed_shape();
                               if (!shape) return py::none();
                               return py::make_tuple(shape->channels, shape->height, shape->width);
                             })
      .def(
          "draw",
          [](const Pipeline& p, int32_t width, int32_t height, const py::int_& seed, uint64_t epoch,
             int64_t index, uint32_t occurrence) {
            return to_dicts(p.native->draw(width, height, 1, make_key(seed, epoch, index, occurrence)));
          },
          py::arg("width"), py::arg("height"), py::arg("seed"), py::arg("epoch"), py::arg("index"),
          py::arg("occurrence") = 0)
      .def("apply", &apply, py::arg("pixels"), py::arg("seed"), py::arg("epoch"), py::arg("index"),
           py::arg("occurrence") = 0)
      .def(py::pickle([](const Pipeline& p) { return py::make_tuple(p.chain); },
                      [](const py::tuple& state) { return Pipeline(state[0].cast<py::list>()); }));
}

}  // namespace millrace::python
