// Notes which blocks of the disk cache's entries were verified since the machine started. Each process of the
// node tells the next one, so only the first compares blocks that are in memory anyway, and the others read
// at a local file's speed.
//
// The note lies in the entry's map, past the records: a bit per block, the boot, the data file's state, and a
// checksum of all this. A block is taken for verified only if
// - a process of this boot wrote it, or compared it with its record: what a crash of the machine left half
// written is compared again;
// - nobody wrote to the data file since (its inode, and the times it was written and changed at, which
// utime() cannot put back);
// - all of it is in memory when the note is read: every process that opens the entry compares blocks from the
// disk. A note damaged in another way (two writers at once, kill -9, a full disk) does not match its checksum
// and is ignored.
//
// Trusted: memory; the kernel's page cache, including bytes that it read ahead and no process took; and every
// program with the right to write to the cache's folder, as it could change the records as well.
//
// Cost: microseconds to ask which pages are in memory; before Linux 6.5, some 20 microseconds per MiB of the
// entry. Any thread, no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::io {

struct FileState {
  uint64_t inode = 0;
  int64_t written = -1, changed = -1;  // nanoseconds; -1: cannot be told
  friend bool operator==(const FileState&, const FileState&) = default;
};

FileState state_of(int fd);

// A flag per block; all false when nothing is known. `at`: the note's offset in the map. `data_fd` must be
// writable.
std::vector<bool> recall_verified(int map_fd, int64_t at, int data_fd, size_t blocks, int64_t block_bytes);

// Adds blocks to the note. `as_of`: the data file's state when they were verified; nothing happens when it is
// another one by now. A file that was written to within the clock's tick is given a time of its own, so that
// a write in the same tick is noticed.
void note_verified(int map_fd, int64_t at, int data_fd, FileState as_of, const std::vector<bool>& blocks);

}  // namespace millrace::io
