// tar_file: the bytes of a plain tar archive, for tests that see nothing but the public headers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

inline std::string tar_entry(const std::string& name, const std::string& content) {
  std::string block(512, '\0');
  char size[13];
  std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(content.size()));
  block.replace(0, name.size(), name);
  block.replace(100, 7, "0000644");
  block.replace(124, 11, size);
  block.replace(136, 11, "00000000000");
  block.replace(148, 8, "        ");
  block[156] = '0';
  block.replace(257, 8,
                std::string("ustar\0"
                            "00",
                            8));
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<uint8_t>(c);
  char checksum[8];
  std::snprintf(checksum, sizeof checksum, "%06o", sum);
  block.replace(148, 7, std::string(checksum) + '\0');
  block += content;
  block.resize((block.size() + 511) / 512 * 512, '\0');
  return block;
}

using TarFiles = std::vector<std::pair<std::string, std::string>>;  // name, content

inline std::string tar_file(const TarFiles& files) {
  std::string archive;
  for (const auto& [name, content] : files) archive += tar_entry(name, content);
  return archive + std::string(1024, '\0');
}

}  // namespace millrace
