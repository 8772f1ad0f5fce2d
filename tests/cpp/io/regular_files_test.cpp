// What is in place of a file: FIFOs, devices, sockets and folders are errors at once, whoever opens them; so
// is another file with its name.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "../scratch_folder.h"
#include "io/byte_source.h"
#include "io/mapped_file.h"
#include "io/read_file.h"
#include "millrace/error.h"

namespace millrace::io {
namespace {

const std::map<std::string, std::function<void(const std::string&)>> kReaders{
    {"read_file",
     [](const std::string& path) {
       FileBuffer buffer;
       read_file(path, buffer);
     }},
    {"MappedFile", [](const std::string& path) { MappedFile file(path); }},
    {"open_local_file", [](const std::string& path) { open_local_file(path); }},
    {"open_local_file, closed between reads",
     [](const std::string& path) { open_local_file(path, {}, false); }},
};

// A test that would wait for ever is killed instead.
struct Deadline {
  Deadline() { ::alarm(20); }
  ~Deadline() { ::alarm(0); }
};

void expect_refused(const std::string& path, int code, const std::string& kind) {
  const Deadline deadline;
  for (const auto& [name, read] : kReaders) {
    try {
      read(path);
      ADD_FAILURE() << name << " reads " << kind;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::system) << name;
      EXPECT_EQ(error.code(), code) << name;
      EXPECT_EQ(error.path(), path) << name;
      const std::string words = error.what();
      EXPECT_NE(words.find("it is " + kind + ", not a regular file"), std::string::npos)
          << name << ": " << words;
    }
  }
}

TEST(RegularFiles, Fifo) {
  const ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  expect_refused(folder / "fifo", EINVAL, "a FIFO");
  std::filesystem::create_symlink(folder / "fifo", folder / "link.jpg");
  expect_refused(folder / "link.jpg", EINVAL, "a FIFO");
}

TEST(RegularFiles, PipeOfThisProcess) {
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  expect_refused("/proc/self/fd/" + std::to_string(ends[0]), EINVAL, "a FIFO");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(RegularFiles, Devices) {
  const ScratchFolder folder;
  std::filesystem::create_symlink("/dev/zero", folder / "zero.jpg");
  expect_refused(folder / "zero.jpg", EINVAL, "a character device");
  expect_refused("/dev/null", EINVAL, "a character device");
}

TEST(RegularFiles, Socket) {
  const ScratchFolder folder;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "s").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_refused(folder / "s", EINVAL, "a socket");
  ::close(fd);
}

TEST(RegularFiles, Folder) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "x.jpg");
  expect_refused(folder / "x.jpg", EISDIR, "a directory");
}

TEST(RegularFiles, AFileThatIsLeasedIsReadWhenTheLeaseIsGivenUp) {
  const ScratchFolder folder;
  const std::string path = folder.write("file", "content");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct sigaction ignore{}, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGIO, &ignore, &before);
  if (::fcntl(fd, F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here";
  std::thread holder([&] {
    while (::fcntl(fd, F_GETLEASE) == F_WRLCK) ::usleep(1000);  // F_UNLCK: somebody waits for it
    ::fcntl(fd, F_SETLEASE, F_UNLCK);
  });
  FileBuffer buffer;
  read_file(path, buffer);
  holder.join();
  ::close(fd);
  ::sigaction(SIGIO, &before, nullptr);
  EXPECT_EQ(buffer.bytes().size(), 7u);
}

std::pair<int64_t, int64_t> changed_at(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return {status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
}

TEST(RegularFiles, AFileThatTookThePlaceOfOneIsNotReadForIt) {
  const ScratchFolder folder;
  const std::string path = folder.write("a", "first");
  const auto time = std::filesystem::last_write_time(path);
  const auto kept = open_local_file(path), reopened = open_local_file(path, "the name", false);
  // Of the same size and time. The clock of inodes ticks every few milliseconds: within a tick it would pass
  // for the same file.
  do {
    folder.write("b", "other");
    std::filesystem::last_write_time(folder / "b", time);
  } while (changed_at(path) == changed_at(folder / "b"));
  std::filesystem::rename(folder / "b", path);
  std::array<uint8_t, 5> bytes;
  kept->read_at(0, bytes);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "first");
  try {
    reopened->read_at(0, bytes);
    ADD_FAILURE() << "bytes of another file";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_EQ(error.path(), "the name");
  }
}

TEST(RegularFiles, AFileThatGetsAnotherModeIsStillTheSame) {
  const ScratchFolder folder;
  const std::string path = folder.write("a", "first");
  const auto reopened = open_local_file(path, {}, false);
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  std::array<uint8_t, 5> bytes;
  reopened->read_at(0, bytes);
}

}  // namespace
}  // namespace millrace::io
