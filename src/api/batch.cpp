// Field and Batch.
#include "millrace/batch.h"

#include <algorithm>

#include "millrace/error.h"

namespace millrace {

Field::Field(std::string name, DType dtype, std::vector<int64_t> shape, void* data,
             std::shared_ptr<void> owner, std::vector<int64_t> offsets)
    : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)), data_(data), owner_(std::move(owner)),
      offsets_(std::move(offsets)) {}

int64_t Field::elements() const {
  if (shape_.empty()) return 0;
  int64_t count = 1;
  for (const int64_t side : shape_) count *= side;
  return count;
}

void Field::check(DType type) const {
  if (type != dtype_)
    throw Error(ErrorKind::invalid_argument, "field \"" + name_ + "\" has elements of " + dtype_name(dtype_) +
                                                 ", and as() was asked for " + dtype_name(type));
}

Batch::Batch(int64_t number, std::vector<Field> fields, std::vector<int64_t> indices)
    : number_(number), fields_(std::move(fields)), indices_(std::move(indices)) {}

const Field& Batch::operator[](std::string_view name) const {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.name() == name; });
  if (found != fields_.end()) return *found;
  std::string names;
  for (const Field& field : fields_) names += (names.empty() ? "\"" : ", \"") + field.name() + "\"";
  throw Error(ErrorKind::invalid_argument, "a batch has no field \"" + std::string(name) + "\"; it has " +
                                               (names.empty() ? std::string("none") : names));
}

}  // namespace millrace
