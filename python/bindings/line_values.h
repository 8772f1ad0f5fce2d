// What the bindings of lines share: lines read for a batch, and values of JSON as Python's.
#pragma once

#include <string_view>

#include "bindings.h"
#include "sources/line_files.h"

namespace millrace::python {

void read_lines(const sources::LineFiles& files, const py::array_t<int64_t, py::array::c_style>& rows,
                sources::LineBatch& batch);

// Its content, without \n or \r\n. Empty, with a null pointer, for a line that was not read.
std::string_view without_newline(const sources::LineBatch::Line& line);

}  // namespace millrace::python
