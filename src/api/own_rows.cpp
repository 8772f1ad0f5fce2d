#include "api/own_rows.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "base/checked.h"
#include "millrace/error.h"

namespace millrace::api {
namespace {

// A ragged field's part of a row is a ticket.
size_t part_bytes(const FieldSpec& field) { return field.ragged ? sizeof(uint64_t) : row_bytes(field); }
size_t part_alignment(const FieldSpec& field) {
  return field.ragged ? sizeof(uint64_t) : dtype_bytes(field.dtype);
}

[[noreturn]] void fail_use(const FieldSpec& field, const std::string& rule) {
  throw Error(ErrorKind::invalid_argument, "read() of a dataset: field \"" + field.name + "\" " + rule);
}

class OwnWriter final : public RowWriter {
 public:
  explicit OwnWriter(const OwnLayout& layout) : layout_(layout), ragged_(layout.fields.size()) {}

  void begin(const loader::RowMemory& memory) {
    memory_ = memory;
    for (RaggedRow& row : ragged_) row = {};
  }
  // After a read() that succeeded.
  void end() {
    for (size_t field = 0; field < ragged_.size(); ++field) {
      if (!layout_.fields[field].ragged) continue;
      const uint64_t ticket = ragged_[field].data ? layout_.store.put(std::move(ragged_[field])) : 0;
      std::memcpy(part(field), &ticket, sizeof ticket);
    }
  }

  std::span<std::byte> bytes(size_t field) override {
    if (spec(field).ragged) fail_use(spec(field), "is ragged; use ragged() or ragged_bytes()");
    return {part(field), layout_.parts[field].bytes};
  }
  std::span<std::byte> ragged_bytes(size_t field, int64_t count) override {
    const FieldSpec& of = spec(field);
    if (!of.ragged) fail_use(of, "is not ragged; use row() or bytes()");
    if (count < 0) fail_use(of, "cannot have " + std::to_string(count) + " rows; give 0 or more");
    if (ragged_[field].data) fail_use(of, "was given its rows already; ask for all of them at once");
    const size_t size =
        base::checked_mul(row_bytes(of), static_cast<size_t>(count), "rows of a ragged field");
    // Aligned for any type: operator new's alignment is 16.
    ragged_[field] = {std::make_unique_for_overwrite<std::byte[]>(std::max<size_t>(size, 1)), size, count};
    return {ragged_[field].data.get(), size};
  }

 protected:
  std::span<std::byte> fixed(size_t field, DType type) override {
    check_type(spec(field), type);
    return bytes(field);
  }
  std::span<std::byte> varying(size_t field, DType type, int64_t count) override {
    check_type(spec(field), type);
    return ragged_bytes(field, count);
  }

 private:
  const FieldSpec& spec(size_t field) const {
    if (field < layout_.fields.size()) return layout_.fields[field];
    throw Error(ErrorKind::invalid_argument,
                "read() of a dataset asks for field " + std::to_string(field) + ", and fields() names " +
                    std::to_string(layout_.fields.size()) + " fields, from 0 on");
  }
  static void check_type(const FieldSpec& field, DType type) {
    if (field.dtype != type)
      fail_use(field,
               std::string("has elements of ") + dtype_name(field.dtype) + ", not " + dtype_name(type));
  }
  std::byte* part(size_t field) {
    const RowPart& at = layout_.parts[field];
    return reinterpret_cast<std::byte*>(memory_.part(at.before, at.bytes));
  }

  const OwnLayout& layout_;
  loader::RowMemory memory_;
  std::vector<RaggedRow> ragged_;  // by field
};

class OwnMaker final : public loader::RowMaker {
 public:
  OwnMaker(std::shared_ptr<const SampleReader> reader, std::shared_ptr<const OwnLayout> layout,
           trace::StageTimes* times)
      : reader_(std::move(reader)), layout_(std::move(layout)), times_(times), writer_(*layout_) {}

  transforms::OutputShape prepare(const base::SampleKey& key, size_t /*form*/) override {
    key_ = key;
    return layout_->row;
  }
  void finish(const loader::RowMemory& memory) override {
    const trace::StageTimer timer(times_, trace::Stage::sample);
    writer_.begin(memory);
    try {
      reader_->read(key_, writer_);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;  // no fault of the sample
    } catch (const std::exception& error) {
      fail(error.what());
    } catch (...) {
      fail("read() threw something that is no std::exception");
    }
    writer_.end();
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    std::string name;
    try {
      name = reader_->name(key_.index);
    } catch (...) {
      name = "sample " + std::to_string(key_.index);
    }
    throw Error(ErrorKind::corrupt_data, name + ": " + reason, name);
  }

  const std::shared_ptr<const SampleReader> reader_;
  const std::shared_ptr<const OwnLayout> layout_;
  trace::StageTimes* const times_;
  OwnWriter writer_;
  base::SampleKey key_;
};

Field ragged_field(const OwnLayout& layout, size_t field, const uint8_t* tickets, int64_t rows,
                   const BatchMemory& memory) {
  const FieldSpec& spec = layout.fields[field];
  std::vector<RaggedRow> found;
  std::vector<int64_t> offsets{0};
  size_t bytes = 0;
  for (int64_t row = 0; row < rows; ++row) {
    uint64_t ticket = 0;
    std::memcpy(&ticket, tickets + static_cast<size_t>(row) * sizeof ticket, sizeof ticket);
    found.push_back(ticket == 0 ? RaggedRow{} : layout.store.take(ticket));
    offsets.push_back(static_cast<int64_t>(base::checked_add(
        static_cast<size_t>(offsets.back()), static_cast<size_t>(found.back().rows), "rows of a batch")));
    bytes += found.back().bytes;
  }
  auto [data, owner] = memory.allocate(bytes);
  auto* to = static_cast<std::byte*>(data);
  for (const RaggedRow& row : found) {
    if (row.bytes > 0) std::memcpy(to, row.data.get(), row.bytes);
    to += row.bytes;
  }
  std::vector<int64_t> shape{offsets.back()};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return {spec.name, spec.dtype, std::move(shape), data, std::move(owner), std::move(offsets)};
}

}  // namespace

OwnLayout::OwnLayout(std::vector<FieldSpec> of_fields) : fields(std::move(of_fields)), parts(fields.size()) {
  std::vector<size_t> order(fields.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return part_alignment(fields[a]) > part_alignment(fields[b]); });
  size_t before = 0;
  for (const size_t field : order) {
    parts[field] = {before, part_bytes(fields[field])};
    before = base::checked_add(before, parts[field].bytes, "a sample");
    if (before > std::numeric_limits<int32_t>::max())
      throw Error(ErrorKind::invalid_argument, "a sample has " + std::to_string(before) +
                                                   " bytes in its fixed fields; 2^31 - 1 is the most");
    blocks.push_back({1, 1, static_cast<int32_t>(parts[field].bytes)});
  }
  row = {1, 1, static_cast<int32_t>(before)};
}

std::unique_ptr<loader::RowMaker> make_own_rows(std::shared_ptr<const SampleReader> reader,
                                                std::shared_ptr<const OwnLayout> layout,
                                                trace::StageTimes* times) {
  return std::make_unique<OwnMaker>(std::move(reader), std::move(layout), times);
}

std::vector<Field> own_fields(const OwnLayout& layout, loader::Batch& batch, const BatchMemory& memory) {
  const auto lease = std::make_shared<core::Lease>(std::move(batch.images));
  std::vector<Field> fields;
  for (size_t field = 0; field < layout.fields.size(); ++field) {
    uint8_t* const block = lease->data() + layout.parts[field].before * static_cast<size_t>(batch.block_rows);
    fields.push_back(layout.fields[field].ragged
                         ? ragged_field(layout, field, block, batch.rows, memory)
                         : memory.dense(layout.fields[field], batch.rows, block, lease));
  }
  return fields;
}

}  // namespace millrace::api
