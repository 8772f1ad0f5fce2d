#include "collate/row_maker.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "collate/row_gather.h"
#include "collate/token_kernels.h"
#include "collate/whole_numbers.h"
#include "core/bus_guard.h"
#include "millrace/error.h"

namespace millrace::collate {

// What was noticed on the way.
struct RowMaker::Notes {
  const uint8_t* bad_row = nullptr;  // with an element that is not allowed
  size_t bad_element = 0;
  int64_t bad_value = 0;
  // A file that was cut short is read as zeros up to the end of its last page, without a signal: only rows
  // that end in a zero can be.
  bool ends_in_zero = false;
};

RowMaker::RowMaker(RowMakerOptions options) : options_(std::move(options)) {
  const auto& o = options_;
  if (o.made != o.stored && !widens(o.stored, o.made))
    throw Error(ErrorKind::invalid_argument, std::string("rows of ") + base::dtype_name(o.stored) +
                                                 " cannot be made rows of " + base::dtype_name(o.made) +
                                                 "; a wider int32 or int64 can hold them all");
  const bool whole = base::dtype_kind(o.stored) == 'i' ||
                     (base::dtype_kind(o.stored) == 'u' && o.stored != base::DType::u64);
  const bool writable = o.made == base::DType::i32 || o.made == base::DType::i64;
  if (((o.highest || o.excluded) && !whole) || (o.excluded && !writable))
    throw Error(ErrorKind::invalid_argument,
                "only rows of whole numbers are checked, and elements left out of int32 and int64");
  if (o.strided &&
      (o.stored != o.made || o.highest || o.excluded || o.strided->row_bytes() != stored_bytes()))
    throw Error(ErrorKind::invalid_argument,
                "only rows whose values lie behind each other are widened or checked");
  std::sort(options_.files.begin(), options_.files.end(),
            [](const RowFile& a, const RowFile& b) { return a.begin < b.begin; });
}

void RowMaker::make(std::span<const uint8_t* const> rows, uint8_t* out, bool past_caches) const {
  Notes notes;
  if (!options_.guarded) {
    write(rows, out, past_caches, notes);
  } else {
    const void* at = nullptr;
    if (!core::guarded([&] { write(rows, out, past_caches, notes); }, &at)) fail_short(at);
    if (notes.ends_in_zero) check_ends(rows);
  }
  if (notes.bad_row) fail_element(notes);
}

// May be left by a jump: owns nothing.
void RowMaker::write(std::span<const uint8_t* const> rows, uint8_t* out, bool past_caches,
                     Notes& notes) const {
  const auto& o = options_;
  if (o.strided)
    o.strided->gather(rows, out);
  else if (o.stored == o.made)
    gather_rows(rows, stored_bytes(), out);
  const size_t ahead = rows_to_fetch_ahead(stored_bytes());
  for (size_t i = 0; i < rows.size(); ++i, out += made_bytes()) {
    if (o.stored != o.made) {
      if (i + ahead < rows.size()) fetch_row(rows[i + ahead], stored_bytes());
      widen(rows[i], o.stored, o.made, o.elements, out, past_caches);
    }
    if (o.highest) {
      if (const size_t at = find_outside(rows[i], o.stored, o.elements, *o.highest); at < o.elements) {
        with_type(o.stored, [&]<class T>(T value) {
          std::memcpy(&value, rows[i] + at * sizeof(T), sizeof(T));
          notes.bad_row = rows[i], notes.bad_element = at, notes.bad_value = static_cast<int64_t>(value);
        });
        return;
      }
    }
    if (o.excluded) leave_out(rows[i], out);
    if (o.guarded) notes.ends_in_zero |= ends_in_zero(rows[i]);
  }
}

bool RowMaker::ends_in_zero(const uint8_t* row) const {
  const size_t size = base::dtype_bytes(options_.stored);
  if (stored_bytes() == 0) return false;
  const uint8_t* const last =
      row + (options_.strided ? options_.strided->last_item() : static_cast<int64_t>(stored_bytes() - size));
  return std::all_of(last, last + size, [](uint8_t byte) { return byte == 0; });
}

void RowMaker::leave_out(const uint8_t* row, uint8_t* out) const {
  const auto& o = options_;
  const size_t size = base::dtype_bytes(o.stored);
  if (o.excluded->separator) {
    const uint8_t* const before = row - static_cast<size_t>(o.excluded->behind) * size;
    for (size_t i = 0; (i = find_equal(before, o.stored, i, o.elements, *o.excluded->separator)) < o.elements;
         ++i)
      put(out, i);
  }
  if (const RowFile* const file = file_of(row); file && !file->borders.empty()) {
    const int64_t first = (row - file->numbers) / static_cast<int64_t>(size);
    const int64_t end = first + static_cast<int64_t>(o.elements);
    for (auto at = std::lower_bound(file->borders.begin(), file->borders.end(), first);
         at != file->borders.end() && *at < end; ++at)
      put(out, static_cast<size_t>(*at - first));
  }
}

void RowMaker::put(uint8_t* out, size_t element) const {
  if (options_.made == base::DType::i64) {
    std::memcpy(out + element * 8, &options_.excluded->value, 8);
  } else {
    const auto value = static_cast<int32_t>(options_.excluded->value);
    std::memcpy(out + element * 4, &value, 4);
  }
}

const RowFile* RowMaker::file_of(const void* address) const {
  const auto* at = static_cast<const uint8_t*>(address);
  const auto behind = std::upper_bound(options_.files.begin(), options_.files.end(), at,
                                       [](const uint8_t* a, const RowFile& file) { return a < file.begin; });
  if (behind == options_.files.begin()) return nullptr;
  const RowFile& file = *std::prev(behind);
  return at < file.end ? &file : nullptr;
}

void RowMaker::check_ends(std::span<const uint8_t* const> rows) const {
  const RowFile* looked_at = nullptr;
  for (const uint8_t* row : rows) {
    const RowFile* const file = file_of(row);
    if (!file || file == looked_at || !file->shrank) continue;
    looked_at = file;
    if (file->shrank()) fail_short(row);
  }
}

void RowMaker::fail_short(const void* address) const {
  const RowFile* const file = file_of(address);
  if (!file && !options_.files.empty())
    throw Error(
        ErrorKind::system,
        "the system had no memory for a batch that it had promised (SIGBUS); use smaller batches, or more "
        "room for shared memory",
        {}, -1, ENOMEM);
  const std::string path = file ? file->path : "";
  const int64_t offset =
      file && file->offset >= 0 ? file->offset + (static_cast<const uint8_t*>(address) - file->begin) : -1;
  throw Error(ErrorKind::corrupt_data,
              (path.empty() ? std::string("a mapped file") : path) +
                  " is shorter than it was when it was opened, or cannot be read any more: somebody cut it "
                  "short while it was in use. "
                  "Write the new version to another file, and open the dataset again",
              path, offset);
}

void RowMaker::fail_element(const Notes& notes) const {
  const RowFile* const file = file_of(notes.bad_row);
  const std::string path = file ? file->path : "";
  const size_t size = base::dtype_bytes(options_.stored);
  const int64_t offset = file && file->offset >= 0 ? file->offset + (notes.bad_row - file->begin) +
                                                         static_cast<int64_t>(notes.bad_element * size)
                                                   : -1;
  const std::string place = offset >= 0 ? " at byte " + std::to_string(offset) : "";
  throw Error(ErrorKind::corrupt_data,
              (path.empty() ? std::string("the data") : path) + place + ": token " +
                  std::to_string(notes.bad_value) + " is not in [0, " + std::to_string(*options_.highest) +
                  "]; the file is of another vocabulary or element type, or damaged",
              path, offset);
}

}  // namespace millrace::collate
