// Field and Batch.
#include "millrace/batch.h"

#include <algorithm>

#include "api/batch_fields.h"
#include "api/refuse.h"
#include "millrace/error.h"

namespace millrace {

Field::Field(std::string name, DType dtype, std::vector<int64_t> shape, void* data,
             std::shared_ptr<void> owner, std::vector<int64_t> offsets)
    : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)), data_(data), owner_(std::move(owner)),
      offsets_(std::move(offsets)) {}

int64_t Field::elements() const { return shape_.empty() ? 0 : api::elements_of(shape_); }

void Field::require_memory(const char* caller) const {
  if (shape_.empty() || (data_ == nullptr && elements() > 0))
    api::refuse(std::string(caller) +
                " was asked for a Field without memory: one made by Field(), or moved from; take it from a "
                "batch, batch[\"image\"], say");
}

void Field::check(DType type) const {
  require_memory("as()");
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
  if (fields_.empty())
    api::refuse("this Batch is empty, so it has no field \"" + std::string(name) +
                "\": next() returned false or threw, or the batch was moved from");
  std::string names;
  for (const Field& field : fields_) names += (names.empty() ? "\"" : ", \"") + field.name() + "\"";
  api::refuse("a batch has no field \"" + std::string(name) + "\"; it has " + names);
}

}  // namespace millrace
