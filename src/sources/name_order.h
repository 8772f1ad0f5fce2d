// sort_names: names of files in the order of Python's sorted(), which compares code points, not bytes.
//
// For valid UTF-8 both orders agree. A byte that is not UTF-8 is, in Python, a lone surrogate U+DC80 ..
// U+DCFF (PEP 383), which sorts before U+E000 although its byte sorts after.
#pragma once

#include <string>
#include <vector>

namespace millrace::sources {

void sort_names(std::vector<std::string>& names);

}  // namespace millrace::sources
