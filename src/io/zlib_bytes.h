// zlib's format for bytes in memory, and its checksum: what a generator's state is stored as, and what a
// state is signed with.
//
// Functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace millrace::io {

std::vector<uint8_t> zlib_packed(std::span<const uint8_t> bytes, int level);
// At most `most` bytes. Throws Error(corrupt_data) for damaged or longer content.
std::vector<uint8_t> zlib_unpacked(std::span<const uint8_t> packed, size_t most);

uint32_t crc32(std::span<const uint8_t> bytes);          // of zlib, zip and PNG
std::string crc32_text(std::span<const uint8_t> bytes);  // eight hexadecimal digits

}  // namespace millrace::io
