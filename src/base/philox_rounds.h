// The ten rounds of Philox4x32-10 (philox.h has the paper), for the CPU and the GPU. Pure, any thread.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace millrace::base {

// `c`: the counter, which becomes four random words.
MILLRACE_BOTH inline void philox_rounds(uint32_t (&c)[4], uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next0 = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0,
                   next2 = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1;
    c[0] = next0, c[1] = static_cast<uint32_t>(p1), c[2] = next2, c[3] = static_cast<uint32_t>(p0);
  }
}

}  // namespace millrace::base
