#include "ulp/rpcrdma/handles/handle_table.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include <dirent.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr unsigned kHandleBytes = 128;  // MAX_HANDLE_SZ.
constexpr int kDepthMax = 200;
constexpr std::size_t kGoneMax = 1 << 16;

/// The path of an open folder. Empty: it has none any more.
std::string path_of(int at) {
  if (at == AT_FDCWD) return ".";
  std::array<char, 4096> path;
  const std::string link = "/proc/self/fd/" + std::to_string(at);
  const ssize_t bytes = readlink(link.c_str(), path.data(), path.size());
  return bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : std::string();
}

/// Bytes that no client knows. Without the call's there are those of its memory's place.
std::string salt() {
  std::array<char, 16> bytes{};
  const char* const place = bytes.data();
  std::memcpy(bytes.data(), &place, sizeof place);
  [[maybe_unused]] const ssize_t got = getrandom(bytes.data(), bytes.size(), GRND_NONBLOCK);
  return {bytes.data(), bytes.size()};
}

}  // namespace

std::string key_of(const file_handle& handle) {
  std::string key(reinterpret_cast<const char*>(&handle.handle_type), sizeof handle.handle_type);
  return key.append(reinterpret_cast<const char*>(handle.f_handle), handle.handle_bytes);
}

std::string key_of(int at, const char* name) {
  alignas(file_handle) std::array<unsigned char, sizeof(file_handle) + kHandleBytes> memory{};
  auto& handle = *reinterpret_cast<file_handle*>(memory.data());
  handle.handle_bytes = kHandleBytes;
  int mount = 0;
  const int flags = *name == '\0' ? AT_EMPTY_PATH : 0;
  // Not the library's call: that is ours, and comes back here.
  const long done = syscall(SYS_name_to_handle_at, at, name, &handle, &mount, flags);
  return done == 0 ? key_of(handle) : std::string();
}

SeenHandles::SeenHandles() : salt_(salt()) {}

std::array<std::size_t, 2> SeenHandles::places_of(const std::string& key) const {
  const std::uint64_t hash = std::hash<std::string>()(salt_ + key);
  return {hash % kBits, (hash >> 32) % kBits};
}

void SeenHandles::put(const std::string& key) {
  for (const std::size_t place : places_of(key)) bits_[place] = true;
}

bool SeenHandles::may_contain(const std::string& key) const {
  const auto places = places_of(key);
  return bits_[places[0]] && bits_[places[1]];
}

void HandleTable::put(const std::string& key, std::string path) {
  seen_.put(key);
  if (paths_.size() >= kEntriesMax) paths_.clear();
  gone_.erase(key);
  paths_[key] = std::move(path);
}

void HandleTable::add(const std::string& key, int at, const char* name) {
  if (key.empty()) return;
  std::string path = *name == '/' ? std::string() : path_of(at);
  if (!path.empty() && *name != '\0') path += '/';
  const std::lock_guard lock(mutex_);
  put(key, path + name);
}

/// Never follows a link: a handle names the link itself.
std::optional<int> HandleTable::open_known(const std::string& key, int flags) {
  const auto found = paths_.find(key);
  if (found == paths_.end()) return std::nullopt;
  const int fd = ::open(found->second.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
  const int error = errno;
  if (fd >= 0 && key_of(fd, "") == key) return fd;
  if (fd >= 0) close(fd);
  // The file is there, and may not be opened like this.
  if (fd < 0 && error != ENOENT && key_of(AT_FDCWD, found->second.c_str()) == key) {
    errno = error;
    return -1;
  }
  paths_.erase(found);
  return std::nullopt;
}

void HandleTable::look_through(const std::string& folder, int depth) {
  DIR* const stream = opendir(folder.c_str());
  if (stream == nullptr) return;
  while (const dirent* const entry = readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string key = key_of(dirfd(stream), entry->d_name);
    const std::string path = folder + "/" + entry->d_name;
    if (!key.empty()) put(key, path);
    if (entry->d_type == DT_DIR && depth < kDepthMax) look_through(path, depth + 1);
  }
  closedir(stream);
}

int HandleTable::open(const std::string& key, int flags) {
  const std::lock_guard lock(mutex_);
  if (const auto fd = open_known(key, flags)) return *fd;
  const bool was_given = searches_ == 0 || seen_.may_contain(key);
  if (was_given && !gone_.contains(key)) {
    ++searches_;
    if (const std::string root = key_of(AT_FDCWD, exported_.c_str()); !root.empty())
      put(root, exported_);
    look_through(exported_, 0);
    if (const auto fd = open_known(key, flags)) return *fd;
    if (gone_.size() >= kGoneMax) gone_.clear();
    gone_.insert(key);
  }
  errno = ESTALE;
  return -1;
}

}  // namespace verbatim::ulp::rpcrdma
