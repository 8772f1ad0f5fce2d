// The walk: whole paths and stat() where links are involved, so that even link cycles end where they end for
// os.walk (ELOOP).
#include "sources/image_folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "core/cpu_budget.h"
#include "core/thread_group.h"
#include "millrace/error.h"
#include "sources/name_order.h"

namespace millrace::sources {
namespace {

constexpr int kMaxDefaultThreads = 8;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

struct Entries {
  std::vector<std::string> folders, files;  // files: everything that is no folder, broken links too
};

std::string join(const std::string& folder, std::string_view name) {
  std::string path;
  path.reserve(folder.size() + 1 + name.size());
  path = folder;
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

// Whether an entry is a folder or a link to one; `code` gets the errno when nobody can tell.
bool is_folder(const std::string& parent, const dirent& entry, int* code) {
  *code = 0;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat status;
  if (::stat(join(parent, entry.d_name).c_str(), &status) == 0) return S_ISDIR(status.st_mode);
  *code = errno;
  return false;
}

// Calls visit(name, is_folder, errno of stat) for each entry; returns the errno of the listing itself, 0 for
// none.
template <typename Visit>
int for_each_entry(const std::string& path, Visit visit) {
  const Folder folder(::opendir(path.c_str()));
  if (!folder) return errno;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) return errno;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    int code;
    const bool folder_like = is_folder(path, *entry, &code);
    visit(name, folder_like, code);
  }
}

[[noreturn]] void fail(const std::string& path, int code) {
  throw Error(code == ENOENT ? ErrorKind::not_found : ErrorKind::system,
              "cannot list '" + path + "': " + std::generic_category().message(code) +
                  "; an image folder is root/class/image, and root must be a readable folder",
              path, -1, code);
}

std::vector<std::string> find_classes(const std::string& root) {
  if (root.find('\0') != std::string::npos)
    throw Error(ErrorKind::invalid_argument, "embedded null byte in the path of the image folder");
  std::vector<std::string> classes;
  int entry_code = 0;
  std::string bad_entry;
  const int code = for_each_entry(root, [&](std::string_view name, bool folder_like, int stat_code) {
    if (folder_like) classes.emplace_back(name);
    // A broken link is no class; a link that cannot be followed for another reason may be one, so it must not
    // vanish silently.
    if (stat_code != 0 && stat_code != ENOENT && entry_code == 0) {
      entry_code = stat_code;
      bad_entry = join(root, name);
    }
  });
  if (code != 0) fail(root, code);
  if (entry_code != 0) fail(bad_entry, entry_code);
  if (classes.empty()) throw Error(ErrorKind::not_found, "Couldn't find any class folder in " + root + ".");
  sort_names(classes);
  return classes;
}

char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool has_extension(std::string_view name, const std::vector<std::string>& extensions) {
  return std::any_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
    return name.size() >= extension.size() &&
           std::equal(extension.begin(), extension.end(),
                      name.end() - static_cast<ptrdiff_t>(extension.size()),
                      [](char wanted, char found) { return wanted == ascii_lower(found); });
  });
}

std::optional<Entries> read_folder(const std::string& path, const std::vector<std::string>& extensions) {
  Entries entries;
  const int code = for_each_entry(path, [&](std::string_view name, bool folder_like, int) {
    if (folder_like)
      entries.folders.emplace_back(name);
    else if (has_extension(name, extensions))
      entries.files.emplace_back(name);
  });
  if (code != 0) return std::nullopt;
  return entries;
}

// All valid files of one class, as paths below the root.
PathTable walk_class(const std::string& root, const std::string& name,
                     const std::vector<std::string>& extensions) {
  // torchvision sorts whole folder paths, and '/' is not the smallest character: "a-b" comes before "a/b". So
  // the folders are sorted after the walk, not level by level.
  std::vector<std::string> pending{name}, folders;
  std::unordered_map<std::string, std::vector<std::string>> files_of;
  while (!pending.empty()) {
    const std::string folder = std::move(pending.back());
    pending.pop_back();
    auto entries = read_folder(join(root, folder), extensions);
    if (!entries) continue;
    for (const std::string& inner : entries->folders) pending.push_back(join(folder, inner));
    if (entries->files.empty()) continue;
    sort_names(entries->files);
    folders.push_back(folder);
    files_of.emplace(folder, std::move(entries->files));
  }
  PathTable table;
  sort_names(folders);
  for (const std::string& folder : folders)
    for (const std::string& file : files_of[folder]) table.append(join(folder, file));
  return table;
}

// work(i) for i in 0 .. count-1 on `threads` threads, the caller's among them. Rethrows the first error by
// index.
template <typename Work>
void parallel_for(size_t count, int threads, Work work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  core::ThreadGroup helpers;
  try {
    for (size_t i = 1; i < std::min(count, static_cast<size_t>(threads)); ++i)
      helpers.start("millrace-list", run);
  } catch (const Error&) {
    // No more threads to be had: those there are, and this one, do the work.
  }
  run();
  helpers.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

std::string comma_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

}  // namespace

ImageFolderListing list_image_folder(const std::string& root, const ImageFolderOptions& options) {
  ImageFolderListing listing;
  listing.classes = find_classes(root);
  const size_t count = listing.classes.size();
  const int threads =
      options.threads > 0 ? options.threads : std::min(core::cpu_budget().threads, kMaxDefaultThreads);

  std::vector<PathTable> tables(count);
  parallel_for(count, threads,
               [&](size_t i) { tables[i] = walk_class(root, listing.classes[i], options.extensions); });

  size_t paths = 0, characters = 0;
  std::vector<std::string> empty;
  for (size_t i = 0; i < count; ++i) {
    paths += tables[i].size();
    characters += tables[i].characters();
    if (tables[i].size() == 0) empty.push_back(listing.classes[i]);
  }
  if (!empty.empty() && !options.allow_empty)
    throw Error(ErrorKind::not_found, "Found no valid file for the classes " + comma_list(empty) +
                                          ". Supported extensions are: " + comma_list(options.extensions));

  listing.paths.set_prefix(join(root, ""));
  listing.paths.reserve(paths, characters);
  listing.labels.reserve(paths);
  for (size_t i = 0; i < count; ++i) {
    listing.paths.append(tables[i]);
    listing.labels.insert(listing.labels.end(), tables[i].size(), static_cast<int64_t>(i));
    tables[i] = PathTable();  // so that the peak is one listing and one class, not two listings
  }
  return listing;
}

}  // namespace millrace::sources
