#include "api/batch_fields.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <set>
#include <string>

#include "base/checked.h"
#include "millrace/error.h"

namespace millrace::api {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

std::pair<void*, std::shared_ptr<void>> BatchMemory::allocate(size_t bytes) const {
  if (source_) {
    const auto block = std::make_shared<core::MemoryBlock>(source_(bytes));
    return {block->data(), block};
  }
  void* const data = ::operator new(bytes > 0 ? bytes : 1, kAlignment, std::nothrow);
  if (data == nullptr)
    throw Error(ErrorKind::system,
                "there is no memory for " + std::to_string(bytes) + " bytes of a batch; use smaller batches",
                "", -1, ENOMEM);
  return {data, std::shared_ptr<void>(data, [](void* memory) { ::operator delete(memory, kAlignment); })};
}

int64_t elements_of(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t side : shape)
    count = base::checked_mul(count, static_cast<size_t>(side), "a row of a field");
  return static_cast<int64_t>(count);
}

size_t row_bytes(const FieldSpec& spec) {
  return base::checked_mul(static_cast<size_t>(elements_of(spec.shape)), dtype_bytes(spec.dtype),
                           "a row of a field");
}

Field BatchMemory::dense(const FieldSpec& spec, int64_t rows, void* data,
                         const std::shared_ptr<void>& owner) const {
  std::vector<int64_t> shape{rows};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  const size_t bytes = row_bytes(spec) * static_cast<size_t>(rows);
  if (source_ || bytes >= core::kSmallFieldBytes)
    return {spec.name, spec.dtype, std::move(shape), data, owner};
  auto [own, keeper] = allocate(bytes);
  if (bytes > 0) std::memcpy(own, data, bytes);
  return {spec.name, spec.dtype, std::move(shape), own, std::move(keeper)};
}

Field BatchMemory::numbers(const FieldSpec& spec, std::span<const int64_t> values) const {
  auto [data, owner] = allocate(values.size_bytes());
  if (!values.empty()) std::memcpy(data, values.data(), values.size_bytes());
  std::vector<int64_t> shape{std::ssize(values) / elements_of(spec.shape)};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return {spec.name, DType::i64, std::move(shape), data, std::move(owner)};
}

Field BatchMemory::labels(std::span<const int64_t> labels) const {
  return numbers({"label", DType::i64, {}, false}, labels);
}

std::shared_ptr<void> shared(core::Lease lease) { return std::make_shared<core::Lease>(std::move(lease)); }

void check_fields(const std::vector<FieldSpec>& fields, const char* what) {
  if (fields.empty())
    throw Error(ErrorKind::invalid_argument, std::string(what) + " has no fields; give one at least");
  std::set<std::string> names;
  for (const FieldSpec& field : fields) {
    if (field.name.empty())
      throw Error(ErrorKind::invalid_argument, std::string(what) + ": a field has no name");
    if (!names.insert(field.name).second)
      throw Error(ErrorKind::invalid_argument,
                  std::string(what) + " has two fields named \"" + field.name + "\"; rename one");
    for (const int64_t side : field.shape)
      if (side < 0)
        throw Error(ErrorKind::invalid_argument, std::string(what) + ": field \"" + field.name +
                                                     "\" has a side of " + std::to_string(side) +
                                                     " in its shape; sides are 0 or more");
    row_bytes(field);
  }
}

core::BlockSource block_source(const MemorySource& source) {
  if (!source) return {};
  return [source](size_t bytes) {
    auto [data, owner] = source(bytes);
    if (data == nullptr || reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(kAlignment) != 0)
      throw Error(ErrorKind::invalid_argument,
                  "LoaderOptions::memory gave " +
                      std::string(data == nullptr ? "no memory" : "unaligned memory") + " for " +
                      std::to_string(bytes) + " bytes; blocks are 64-byte aligned");
    return core::MemoryBlock(static_cast<uint8_t*>(data), bytes, std::move(owner));
  };
}

}  // namespace millrace::api
