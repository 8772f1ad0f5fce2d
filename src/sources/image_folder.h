// ImageFolder listing: root/class/.../file -> a compact table of paths and labels, in torchvision's order.
//
// Memory: the characters of each path below the root, plus 8 bytes and a label per file; millions of files
// cost tens of MB. Listing runs on `threads` threads (one class folder each at a time) and follows links to
// folders, as torchvision does. Names are bytes and stay as they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sources/path_table.h"

namespace millrace::sources {

struct ImageFolderListing {
  std::vector<std::string> classes;  // sorted by code point, as Python's sorted()
  PathTable paths;                   // within a class: sorted walk of folders, then sorted files
  std::vector<int64_t> labels;       // paths.size() of them
};

struct ImageFolderOptions {
  std::vector<std::string> extensions;  // lower case with the dot; compared case-insensitively
  bool allow_empty = false;
  int threads = 0;  // 0: the CPU budget, at most 8
};

// Throws Error(not_found) in torchvision's words when the root is missing (with errno and path, as os.scandir
// has them), has no class folder, or a class has no valid file; Error(system) for a root that cannot be read.
// Folders below a class that cannot be read count as empty, as in os.walk.
ImageFolderListing list_image_folder(const std::string& root, const ImageFolderOptions& options);

}  // namespace millrace::sources
