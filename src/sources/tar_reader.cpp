// Headers of 512 bytes: POSIX's ustar fields, with numbers beyond them in GNU's base 256 or in PAX records.
#include "sources/tar_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "millrace/error.h"

namespace millrace::sources {
namespace {

constexpr int64_t kBlock = 512;
constexpr const char* kDamaged = "; it was cut short or damaged, copy it again or leave it out";

struct Field {
  size_t offset, size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kPosix{257, 6}, kPrefix{345, 155};
constexpr size_t kType = 156;

std::string_view text(const uint8_t* block, Field field) {
  const std::string_view whole(reinterpret_cast<const char*>(block) + field.offset, field.size);
  return whole.substr(0, whole.find('\0'));
}

// Octal digits between blanks, or GNU's base 256 when the first bit is set. Nothing: no number.
std::optional<int64_t> number(const uint8_t* block, Field field) {
  const uint8_t* bytes = block + field.offset;
  if (bytes[0] == 0x80) {
    int64_t value = 0;
    for (size_t i = 1; i < field.size; ++i) {
      if (value > (INT64_MAX >> 8)) return std::nullopt;
      value = value << 8 | bytes[i];
    }
    return value;
  }
  std::string_view digits = text(block, field);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find(' '));
  if (digits.empty()) return 0;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

// The sum of all bytes, the checksum's own taken as blanks. Old programs summed signed bytes.
template <class Byte>
int64_t sum_of(const uint8_t* block) {
  int32_t all = 0, own = 0;
  for (size_t i = 0; i < kBlock; ++i) all += static_cast<Byte>(block[i]);
  for (size_t i = 0; i < kChecksum.size; ++i) own += static_cast<Byte>(block[kChecksum.offset + i]) - ' ';
  return all - own;
}

bool checksum_is_right(const uint8_t* block) {
  const std::optional<int64_t> said = number(block, kChecksum);
  return said && (*said == sum_of<uint8_t>(block) || *said == sum_of<int8_t>(block));
}

std::string name_of(const uint8_t* block) {
  const std::string_view name = text(block, kName);
  const bool posix = std::memcmp(block + kPosix.offset, "ustar\0", kPosix.size) == 0;
  const std::string_view prefix = posix ? text(block, kPrefix) : std::string_view();
  return prefix.empty() ? std::string(name) : std::string(prefix) + "/" + std::string(name);
}

bool is_regular(char type) { return type == '0' || type == '7' || type == '\0'; }

// Links, devices, folders and pipes have no content, whatever their size field says.
bool has_content(char type) { return !(type >= '1' && type <= '6'); }

}  // namespace

struct TarReader::Overrides {
  std::optional<std::string> name;
  std::optional<int64_t> size;
  bool sparse = false;
};

TarReader::TarReader(std::unique_ptr<io::ByteStream> stream, std::string archive)
    : stream_(std::move(stream)), archive_(std::move(archive)) {}

void TarReader::fail(const std::string& reason) const {
  throw Error(ErrorKind::corrupt_data,
              archive_ + ": " + reason + ", at byte " + std::to_string(header_) + kDamaged, archive_,
              header_);
}

bool TarReader::next_is_buffered() const {
  return static_cast<int64_t>(stream_->buffered()) >= left_ + padding_ + kBlock;
}

void TarReader::skip_padding() {
  if (stream_->skip(left_) < left_) fail("the archive ends inside the file that began there");
  // Content is whole here, but what follows it is lost: tarfile and webdataset refuse that, too.
  if (stream_->skip(padding_) < padding_)
    fail("the archive ends in the padding behind the file that began there");
  left_ = padding_ = 0;
}

// False at the archive's end.
bool TarReader::read_header(uint8_t* block) {
  header_ = stream_->position();
  const size_t got = stream_->read({block, kBlock});
  if (got == 0 && header_ == 0) fail("the archive is empty (0 bytes)");
  if (got == 0) return false;
  if (got == kBlock && std::all_of(block, block + kBlock, [](uint8_t byte) { return byte == 0; })) {
    if (stream_->packed())
      stream_->skip(stream_->most_left());  // the checksum of what was unpacked comes last
    return false;
  }
  if (got < kBlock) fail("the archive ends inside a header");
  if (!checksum_is_right(block))
    fail(header_ == 0 ? "this is no tar archive (wrong checksum of the header)"
                      : "wrong checksum of a header");
  return true;
}

bool TarReader::next(TarEntry& entry) {
  if (ended_) return false;
  ended_ = true;  // until a header was understood
  std::array<uint8_t, kBlock> block;
  Overrides local, global;
  int64_t announced_at = -1;  // the header of a name or attributes of the next file
  for (;;) {
    skip_padding();
    if (!read_header(block.data())) {
      if (announced_at < 0) return false;
      header_ = announced_at;
      fail("the archive ends behind a name or attributes, before the file that has them");
    }
    std::optional<int64_t> size = number(block.data(), kSize);
    if (!size) fail("the size of a file is no number");
    std::string name = name_of(block.data());
    char type = static_cast<char>(block[kType]);
    if (type == '\0' && name.ends_with('/')) type = '5';  // before POSIX, that was how folders were told
    if (type == 'X') type = 'x';                          // Sun's letter for the same

    const bool about_the_next = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!about_the_next) {
      if (local.size) size = local.size;
      if (local.name) name = *local.name;
    }
    if (*size > kMostEntryBytes)
      fail("'" + name + "' is said to have " + std::to_string(*size) + " bytes, more than the " +
           std::to_string(kMostEntryBytes) + " allowed");
    if ((has_content(type) || about_the_next) && *size > stream_->most_left())
      fail("the archive ends inside '" + name + "', which is said to have " + std::to_string(*size) +
           " bytes");
    left_ = has_content(type) || about_the_next ? *size : 0;
    padding_ = (kBlock - left_ % kBlock) % kBlock;
    if (about_the_next && type != 'g') announced_at = header_;

    if (type == 'x') {
      read_records(*size, local);
    } else if (type == 'g') {
      read_records(*size, global);  // of all files after it; nothing that concerns one
    } else if (type == 'L') {
      const std::string long_name = read_text(*size);
      local.name = long_name.substr(0, long_name.find('\0'));
    } else if (type == 'S' || local.sparse) {
      throw Error(ErrorKind::unavailable,
                  archive_ + ": '" + name + "' is a sparse file, at byte " + std::to_string(header_) +
                      ", which is not read; make the archive without tar's --sparse",
                  archive_, header_);
    } else if (is_regular(type)) {
      entry = {std::move(name), stream_->position(), left_, header_};
      ended_ = false;
      return true;
    } else if (type != 'K') {
      local = {};  // it belonged to the entry that is skipped
      announced_at = -1;
    }
  }
}

void TarReader::read(std::span<uint8_t> into) {
  const size_t got = stream_->read(into);
  left_ -= static_cast<int64_t>(got);
  if (got == into.size()) return;
  ended_ = true;
  fail("the archive ends inside the file that began there");
}

std::string TarReader::read_text(int64_t size) {
  if (size > kMostNameBytes)
    fail("a name or its attributes are said to have " + std::to_string(size) + " bytes");
  std::string result(static_cast<size_t>(size), '\0');
  read({reinterpret_cast<uint8_t*>(result.data()), result.size()});
  return result;
}

// Lines "<length of the line> <key>=<value>\n".
void TarReader::read_records(int64_t size, Overrides& overrides) {
  const std::string records = read_text(size);
  std::string_view rest = records;
  while (!rest.empty() && rest.front() != '\0') {
    size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<size_t>(end - rest.data());
    if (error != std::errc() || digits + 2 > length || length > rest.size() || rest[digits] != ' ' ||
        rest[length - 1] != '\n')
      fail("a PAX record is not as it should be");
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) fail("a PAX record is not as it should be");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") {
      overrides.name = std::string(value);
    } else if (key == "size") {
      int64_t bytes = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size() || bytes < 0)
        fail("a PAX record's size is no number");
      overrides.size = bytes;
    } else if (key.starts_with("GNU.sparse.")) {
      overrides.sparse = true;
    }
    rest.remove_prefix(length);
  }
}

}  // namespace millrace::sources
