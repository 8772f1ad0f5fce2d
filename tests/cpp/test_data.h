// The files of tests/data.
#pragma once

#include <filesystem>
#include <string>

namespace millrace {

// The path of tests/data/NAME. Declared here and defined in a file of its own, whose object alone names this
// machine's folders: all others are the same in every clone, and compiler caches find them.
std::filesystem::path test_data(const std::string& name);

}  // namespace millrace
