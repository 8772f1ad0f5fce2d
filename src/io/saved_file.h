// What files that millrace keeps for itself have in common: they appear whole or not at all, and a checksum
// guards their content.
//
// Functions of any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/byte_source.h"

namespace millrace::io {

// Writes the parts one after the other to a new file that takes the place of `path` when it is complete,
// readable for everybody. Throws Error(not_found | system) with errno, and leaves no file.
void save_file(const std::string& path, std::span<const std::span<const uint8_t>> parts);

// FNV-1a over 8 bytes at a time: guards against a file cut short or bits turned, not against people.
// `before`: of the bytes in front, a multiple of 8 of them.
uint64_t checksum(std::span<const uint8_t> bytes, uint64_t before = 0xCBF29CE484222325u);

// A checksum over a file's size and over some of its places, its beginning and end among them. Data kept
// beside a file stores this mark, to detect another file in its place, whatever the time of that one. Sixteen
// reads of 4 KiB. Throws what the source throws.
uint64_t content_mark(const ByteSource& source);

}  // namespace millrace::io
