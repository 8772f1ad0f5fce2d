// What states have as text: checksums, and generators.
//
// The rules are those of python/millrace/_common/states.py. Functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "json/json_value.h"
#include "millrace/state.h"
#include "samplers/torch_generator.h"

namespace millrace::api {

// `state` with its checksum in front: "<crc32> <name> ...", of its content and the names of its entries.
json::Value with_checksum(const json::Value& state);
// `state` without its checksum. StateError when the checksum does not match; a state without one is taken as
// it is. `whose`: the state's name in the message.
json::Value without_checksum(const json::Value& state, std::string_view whose);

// A generator's state as text of about 3.4 kB: zlib in base64. put_back() throws StateError for other text.
std::string packed_generator(const samplers::TorchGenerator& generator);
void put_back(samplers::TorchGenerator& generator, std::string_view text);

}  // namespace millrace::api
