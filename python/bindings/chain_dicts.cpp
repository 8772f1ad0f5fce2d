// Chains of dicts, as lowering makes them, to TransformSpecs.
#include "chain_dicts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transforms/ops/operations.h"

namespace millrace::python {
namespace {

using transforms::Operation;

// Gives a struct the values that a dict has for its fields.
class DictReader {
 public:
  explicit DictReader(py::dict dict) : dict_(std::move(dict)) {}

  template <class... T>
  DictReader& operator()(std::string name, T&... values) {
    const bool may_lack = name.back() == '?';
    if (may_lack) name.pop_back();
    if (dict_.contains(name)) {
      name_ = name;
      read(dict_[name.c_str()], values...);
    } else if (!may_lack) {
      throw py::value_error("transform " + py::repr(dict_).cast<std::string>() + " lacks the field '" + name +
                            "'");
    }
    return *this;
  }

 private:
  template <class T>
  void read(const py::handle& from, T& value) {
    if constexpr (std::is_enum_v<T>) {
      const auto text = from.cast<std::string>();
      const auto& names = transforms::kNamesOf<T>;
      const auto found = std::find(names.begin(), names.end(), text);
      if (found == names.end())
        throw py::value_error(name_ + "='" + text + "' is not known to the native pipeline");
      value = static_cast<T>(found - names.begin());
    } else if constexpr (requires { Operation<T>::fields(*this, value); }) {
      DictReader part(from.cast<py::dict>());
      Operation<T>::fields(part, value);
    } else {
      value = from.cast<T>();
    }
  }
  void read(const py::handle& from, Range& value) {
    std::tie(value.min, value.max) = from.cast<std::pair<double, double>>();
  }
  void read(const py::handle& from, Range& x, Range& y) {
    const auto [x_min, x_max, y_min, y_max] = from.cast<std::array<double, 4>>();
    x = {x_min, x_max}, y = {y_min, y_max};
  }
  void read(const py::handle& from, int32_t& first, int32_t& second) {
    std::tie(first, second) = from.cast<std::pair<int32_t, int32_t>>();
  }
  template <class T>
  void read(const py::handle& from, std::optional<T>& value) {
    value.reset();
    if (!from.is_none()) read(from, value.emplace());
  }
  template <class T>
  void read(const py::handle& from, std::vector<T>& values) {
    values.clear();
    for (const py::object item : from.cast<py::sequence>()) read(item, values.emplace_back());
  }
  void read(const py::handle& from, std::shared_ptr<const ChoiceBranches>& branches) {
    auto made = std::make_shared<ChoiceBranches>();
    for (const py::handle list : from.cast<py::list>()) {
      std::vector<TransformSpec>& specs = made->lists.emplace_back();
      for (const py::handle step : list.cast<py::list>()) specs.push_back(make_spec(step.cast<py::dict>()));
    }
    branches = std::move(made);
  }

  py::dict dict_;
  std::string name_;
};

}  // namespace

TransformSpec make_spec(const py::dict& op) {
  std::string key;
  DictReader read(op);
  read("op", key);
  std::optional<TransformSpec> made;
  transforms::any_transform([&]<class T>(std::type_identity<T>) {
    if (key != Operation<T>::key) return false;
    T t;
    Operation<T>::fields(read, t);
    made.emplace(std::move(t));
    return true;
  });
  if (!made) throw py::value_error("transform '" + key + "' is not known to the native pipeline");
  return *std::move(made);
}

}  // namespace millrace::python
