// What this process has verified of the disk cache's entries, so that the next epoch reads them at a local file's speed.
//
// By an entry's name (of this one version) and the time its data file was last written: when somebody wrote to the file since, nothing is
// known of it. 8 bytes per block, for the life of the process. Any thread; a forked child begins anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

// The records of blocks that were verified, 0 for others; empty: nothing is known.
std::vector<uint64_t> recall_verified(const std::string& entry, int data_fd);

// Adds what is not 0, as of the time `written`: what file_time() gave when the blocks were verified, and gives still.
void remember_verified(const std::string& entry, int64_t written, std::vector<uint64_t> records);

int64_t file_time(int fd);  // when it was last written to, in nanoseconds

}  // namespace millrace
