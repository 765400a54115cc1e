#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/name_locks.h"
#include "base/os/unique_fd.h"
#include "base/time.h"

/// The folder with the sockets and lock files of the agents of one user and network namespace.
namespace verbatim::service {

inline constexpr std::size_t kNodeNameMax = 63;
/// What a node's name may have after its first character.
bool is_node_character(char c);
/// EINVAL unless the name is 1 to 63 letters, digits, '-', '_' and '.', the first a letter or
/// digit.
Result<void> check_node_name(const std::string& node);

/// $XDG_RUNTIME_DIR/verbatim / net-COOKIE, both with mode 0700 and owned by the user. Without a
/// runtime directory of the user the first is /tmp/verbatim-UID, or verbatim-UID.1, .2... if
/// another user was first. UID is the user's outside of a user namespace (`unshare -r`).
class RuntimeFolder {
 public:
  /// Number of names to try in the temporary directory.
  static constexpr int kCandidates = 16;

  /// Creates the folder if it does not exist. EPERM if something else, or a folder that others may
  /// use, is in its place; in the temporary directory: in the place of every candidate.
  static Result<RuntimeFolder> open(const std::string& temporary = "/tmp");

  const std::string& path() const { return path_; }
  std::string socket(const std::string& node) const { return file(node, "sock"); }
  /// Held by the agent as long as it runs.
  std::string agent_lock(const std::string& node) const { return file(node, "lock"); }
  /// Held by the process that starts the agent, until it is ready.
  std::string start_lock(const std::string& node) const { return file(node, "start"); }
  /// The program in slot N holds a lock on byte N.
  std::string programs(const std::string& node) const { return file(node, "programs"); }
  /// A folder: the node's view of /sys and /dev.
  std::string view(const std::string& node) const { return file(node, "view"); }
  std::string log(const std::string& node) const { return file(node, "log"); }
  /// Held by the agent whose node has the address or interface.
  std::string claim(const std::string& what) const { return path_ + "/claim-" + what; }

  /// For programs, by name (base/files/name_locks.h).
  NameLocks locks() const { return NameLocks(path_ + "/locks"); }

  /// Returns the names of nodes with a socket here, sorted. Their agents may be dead.
  std::vector<std::string> nodes() const;
  /// Returns all names with a socket here, sorted: those of nodes and of services (control.h).
  std::vector<std::string> sockets() const;
  /// Removes the folders if they are empty.
  void remove_if_empty() const;

 private:
  std::string file(const std::string& node, const char* ending) const {
    return path_ + "/" + node + "." + ending;
  }
  std::string base_;
  std::string path_;
};

/// A file that is locked exclusively (flock) while this object exists. The owner may remove it: a
/// process that waited for it then notices that it has locked a removed file, and starts again.
class LockFile {
 public:
  /// EWOULDBLOCK if another process still holds it after `timeout_ns`.
  static Result<LockFile> take(const std::string& path, TimeNs timeout_ns);
  LockFile() = default;
  LockFile(LockFile&&) = default;
  LockFile& operator=(LockFile&&) = default;

  int fd() const { return fd_.get(); }
  /// Removes the file and unlocks.
  void remove();

 private:
  std::string path_;
  UniqueFd fd_;
};

/// Bounds the waits of a socket: SO_RCVTIMEO or SO_SNDTIMEO.
void set_patience(int socket, int option, TimeNs patience);
/// Returns a SOCK_SEQPACKET socket that is connected to the path and whose waits are bounded: for
/// an answer by `patience`. ENOENT or ECONNREFUSED if there is no listener.
Result<UniqueFd> connect_to(const std::string& path, TimeNs patience = 8 * kSecond);
/// Returns a SOCK_SEQPACKET socket that listens at the path; removes an older file there.
Result<UniqueFd> listen_at(const std::string& path);

/// ENAMETOOLONG, and what helps, unless a socket's address has room for the path. `listen_at` and
/// `connect_to` know a way around that; what is preloaded into programs and other people's programs
/// do not.
Result<void> check_plain_path(const std::string& path);

}  // namespace verbatim::service
