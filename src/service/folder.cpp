#include "service/folder.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace verbatim::service {
namespace {

constexpr int kBacklog = 128;
/// The longest wait for a daemon that listens but does not accept, because it is stopped or hangs.
constexpr TimeNs kConnectPatience = 5 * kSecond;
/// Attempts to find a folder that others remove or change meanwhile.
constexpr int kAttemptsMax = 100;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Returns the user's runtime directory, if there is one that belongs to the user. (A program
/// started by sudo may have inherited another user's.)
std::optional<std::string> folder_in_runtime_directory() {
  const char* runtime = secure_getenv("XDG_RUNTIME_DIR");
  struct stat info{};
  if (runtime == nullptr || runtime[0] != '/' || stat(runtime, &info) != 0 ||
      !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return std::nullopt;
  }
  return fmt::format("{}/verbatim", runtime);
}

/// ENOENT if nothing is there, EPERM unless it is a folder that only this user may use. lstat needs
/// no descriptor, and does not follow a symbolic link. For a folder that passes, only its owner can
/// change the owner, and in a directory with the sticky bit no other user can replace it.
Result<void> check_private_folder(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return refuse_errno(path);
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) return {};
  return refuse(EPERM, fmt::format("{} is not a folder of user {} with mode 0700 (owner {}, mode "
                                   "{:o}): remove it",
                                   path, geteuid(), info.st_uid, info.st_mode & 07777));
}

/// Makes it for this user alone, whatever the program's umask leaves; sets errno.
bool make_folder(const std::string& path) {
  return mkdir(path.c_str(), 0700) == 0 && chmod(path.c_str(), 0700) == 0;
}

std::unexpected<Error> cannot_make(const std::string& path) {
  const int code = errno;
  return refuse(code, fmt::format("cannot make {}: {}; set XDG_RUNTIME_DIR to a folder of yours in "
                                  "which files can be made",
                                  path, std::strerror(code)));
}

Result<void> make_private_folder(const std::string& path) {
  if (!make_folder(path) && errno != EEXIST) return cannot_make(path);
  return check_private_folder(path);
}

/// Returns the user outside of a user namespace, whose file says (user_namespaces(7)): inside and
/// outside, a user's programs find each other.
uid_t outside_user() {
  std::ifstream map("/proc/self/uid_map");
  const uid_t inside = geteuid();
  for (std::uint64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;) {
    if (inside >= first && inside - first < count) {
      return static_cast<uid_t>(outside + (inside - first));
    }
  }
  return inside;
}

/// In a directory that everyone may write to, another user may have taken a name first; then the
/// next name is used.
std::string candidate(const std::string& temporary, int number) {
  const std::string first = fmt::format("{}/verbatim-{}", temporary, outside_user());
  return number == 0 ? first : fmt::format("{}.{}", first, number);
}

/// Returns the first existing candidate that is valid, other than `except`.
std::optional<std::string> find_candidate(const std::string& temporary,
                                          const std::string& except = {}) {
  for (int number = 0; number < RuntimeFolder::kCandidates; ++number) {
    std::string path = candidate(temporary, number);
    if (path != except && check_private_folder(path)) return path;
  }
  return std::nullopt;
}

struct Candidate {
  std::string path;
  bool is_new = false;
};

/// Creates the first candidate whose name is free, unless a valid one comes before. EEXIST if all
/// names are taken.
Result<Candidate> make_candidate(const std::string& temporary) {
  for (int number = 0; number < RuntimeFolder::kCandidates; ++number) {
    std::string path = candidate(temporary, number);
    if (make_folder(path)) return Candidate{std::move(path), true};
    if (errno != EEXIST) return cannot_make(path);
    if (check_private_folder(path)) return Candidate{std::move(path), false};
  }
  return refuse(EEXIST, "every name is taken");
}

std::unexpected<Error> refuse_all_taken(const std::string& temporary) {
  return refuse(
      EPERM, fmt::format("none of the folders {} to {} belongs to user {} alone, others have taken "
                         "the names: set XDG_RUNTIME_DIR, for all programs of the node, to a "
                         "folder of yours with mode 0700",
                         candidate(temporary, 0),
                         candidate(temporary, RuntimeFolder::kCandidates - 1), geteuid()));
}

/// All processes of a user find the same folder. An existing folder has priority over one that
/// could be created, so that a name that becomes free changes nothing. Two processes can create two
/// folders only if the first name becomes free between their calls of mkdir; at least the later one
/// then sees both, and a process that sees both removes its own and starts again. If another
/// process already uses that folder, it cannot be removed: then there are two agents, and the
/// second is refused the node's addresses, with a text.
Result<std::string> folder_in_temporary_directory(const std::string& temporary) {
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (auto found = find_candidate(temporary)) return *found;
    auto made = make_candidate(temporary);
    if (!made && made.error().code == EEXIST) return refuse_all_taken(temporary);
    if (!made) return std::unexpected(made.error());
    if (!made->is_new || !find_candidate(temporary, made->path)) return made->path;
    if (rmdir(made->path.c_str()) != 0 && errno != ENOENT) return made->path;
  }
  return refuse(EAGAIN, fmt::format("{} is made and removed all the time: set XDG_RUNTIME_DIR, for "
                                    "all programs of the node, to a folder of yours with mode 0700",
                                    candidate(temporary, 0)));
}

Result<std::string> base_folder(const std::string& temporary) {
  const auto own = folder_in_runtime_directory();
  if (!own) return folder_in_temporary_directory(temporary);
  if (auto made = make_private_folder(*own); !made) return std::unexpected(made.error());
  return *own;
}

/// Returns a number of the network namespace that all its processes agree on, with or without
/// /proc. Kernels before 5.14 have only its inode.
Result<std::uint64_t> network_namespace() {
  const UniqueFd any(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any) return refuse_errno("socket");
  std::uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  if (getsockopt(any.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) == 0) return cookie;
  struct stat info{};
  if (stat("/proc/self/ns/net", &info) != 0) return refuse_errno("/proc/self/ns/net");
  return info.st_ino;
}

/// A Unix socket address for a path of any length: a long path goes through its folder's
/// descriptor, which is open as long as this object exists.
class UnixAddress {
 public:
  explicit UnixAddress(const std::string& path) {
    address_.sun_family = AF_UNIX;
    std::string text = path;
    if (text.size() >= sizeof address_.sun_path) {
      const std::size_t slash = path.rfind('/');
      folder_.reset(::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      text = fmt::format("/proc/self/fd/{}{}", folder_.get(), path.substr(slash));
    }
    text.copy(address_.sun_path, sizeof address_.sun_path - 1);
  }
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address_); }

 private:
  sockaddr_un address_{};
  UniqueFd folder_;
};

}  // namespace

bool is_node_character(char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; }

Result<void> check_node_name(const std::string& node) {
  const bool fits = !node.empty() && node.size() <= kNodeNameMax && is_alphanumeric(node[0]) &&
                    std::ranges::all_of(node, is_node_character);
  if (fits) return {};
  return refuse(EINVAL, fmt::format("'{}' is no node name: 1 to 63 letters, digits, '-', '_' and "
                                    "'.', the first a letter or digit",
                                    node));
}

Result<RuntimeFolder> RuntimeFolder::open(const std::string& temporary) {
  const auto number = network_namespace();
  if (!number) return std::unexpected(number.error());
  RuntimeFolder folder;
  for (int attempt = 0;; ++attempt) {
    auto base = base_folder(temporary);
    Result<void> made;
    if (base) {
      folder.base_ = std::move(*base);
      folder.path_ = fmt::format("{}/net-{}", folder.base_, *number);
      made = make_private_folder(folder.path_);
    } else {
      made = std::unexpected(base.error());
    }
    if (made) return folder;
    // An exiting agent may remove the empty folders between our steps.
    if (made.error().code != ENOENT || attempt == kAttemptsMax) {
      return std::unexpected(made.error());
    }
  }
}

std::vector<std::string> RuntimeFolder::nodes() const {
  std::vector<std::string> names = sockets();
  std::erase_if(names, [](const std::string& name) { return !check_node_name(name); });
  return names;
}

std::vector<std::string> RuntimeFolder::sockets() const {
  std::vector<std::string> names;
  DIR* folder = opendir(path_.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name.ends_with(".sock")) names.push_back(name.substr(0, name.size() - 5));
  }
  closedir(folder);
  std::ranges::sort(names);
  return names;
}

void RuntimeFolder::remove_if_empty() const {
  if (rmdir(path_.c_str()) == 0) rmdir(base_.c_str());
}

Result<LockFile> LockFile::take(const std::string& path, TimeNs timeout_ns) {
  const TimeNs deadline = monotonic_now() + timeout_ns;
  for (;;) {
    LockFile lock;
    lock.path_ = path;
    lock.fd_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock.fd_) fchmod(lock.fd_.get(), 0600);  // Whatever the program's umask left.
    if (!lock.fd_) return refuse_errno("cannot open " + path);
    if (flock(lock.fd(), LOCK_EX | LOCK_NB) == 0) {
      struct stat locked{}, present{};
      if (fstat(lock.fd(), &locked) == 0 && stat(path.c_str(), &present) == 0 &&
          locked.st_ino == present.st_ino) {
        return lock;
      }
    } else if (errno != EWOULDBLOCK && errno != EINTR) {
      return refuse_errno("cannot lock " + path);
    } else if (monotonic_now() >= deadline) {
      return refuse(EWOULDBLOCK, path + " is locked by another process");
    } else {
      usleep(1000);  // The kernel cannot bound such a wait without a signal.
    }
  }
}

void LockFile::remove() {
  if (fd_) unlink(path_.c_str());
  fd_.reset();
}

void set_patience(int socket, int option, TimeNs patience) {
  patience = std::max(patience, kMicrosecond);  // 0 would be for ever.
  const timeval limit{static_cast<time_t>(patience / kSecond),
                      static_cast<suseconds_t>(patience % kSecond / kMicrosecond)};
  setsockopt(socket, SOL_SOCKET, option, &limit, sizeof limit);
}

Result<UniqueFd> connect_to(const std::string& path, TimeNs patience) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return refuse_errno("socket");
  set_patience(fd.get(), SO_SNDTIMEO, std::min(patience, kConnectPatience));
  set_patience(fd.get(), SO_RCVTIMEO, patience);
  const UnixAddress address(path);
  while (connect(fd.get(), address.data(), sizeof(sockaddr_un)) != 0) {
    if (errno != EINTR) return refuse_errno("cannot connect to " + path);
  }
  return fd;
}

Result<UniqueFd> listen_at(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("socket");
  unlink(path.c_str());
  const UnixAddress address(path);
  if (bind(fd.get(), address.data(), sizeof(sockaddr_un)) != 0 || listen(fd.get(), kBacklog) != 0) {
    return refuse_errno("cannot listen at " + path);
  }
  return fd;
}

Result<void> check_plain_path(const std::string& path) {
  constexpr std::size_t kBytesMax = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= kBytesMax) return {};
  return refuse(ENAMETOOLONG,
                fmt::format("{}: programs reach no socket whose path has more than {} bytes, and "
                            "this one has {}: set XDG_RUNTIME_DIR, for all programs of the node, "
                            "to a folder of yours with mode 0700 and a shorter path",
                            path, kBytesMax, path.size()));
}

}  // namespace verbatim::service
