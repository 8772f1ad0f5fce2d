// JsonValues: columns of JSON as what Python has of them: tensors, str, dicts and lists.
//
// All members need the GIL. One batch or block at a time.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.h"
#include "json/json_fields.h"

namespace millrace::python {

class JsonValues {
 public:
  explicit JsonValues(const std::vector<json::JsonField>& fields) : fields_(fields) {}

  // Of the row of a column that is not of kind number. A null object: the text is no UTF-8 after all (a lone
  // half of a surrogate pair), which is the caller's to read another way.
  py::object value(size_t field, const json::JsonColumn& column, size_t row);

  // Of kind number, as a sample has it: an int, float or bool where one of torch's own numbers has that type,
  // else a numpy scalar; for shapes a tensor.
  py::object number(size_t field, const uint8_t* data);

 private:
  py::object text(std::string_view content, bool ascii) const;
  py::object key(std::string_view name);
  py::object build(const uint8_t*& at);
  py::object list_of(const json::JsonField& field, std::span<const uint8_t> bytes) const;

  const std::vector<json::JsonField>& fields_;
  struct Known {
    std::string name;
    py::object object;
  };
  std::array<Known, 64> keys_;  // names are few: one Python string each
};

}  // namespace millrace::python
