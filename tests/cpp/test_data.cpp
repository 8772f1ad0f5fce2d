#include "test_data.h"

std::filesystem::path millrace::test_data(const std::string& name) {
  return std::filesystem::path(MILLRACE_TEST_DATA) / name;
}
