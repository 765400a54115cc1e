#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/os/name_locks.h"
#include "base/os/unique_fd.h"
#include "base/time.h"

/// Where the agents of a user and network namespace leave their sockets and lock files.
namespace verbatim::agent {

inline constexpr std::size_t kNodeNameMax = 63;
/// What a node's name may have after its first character.
bool is_node_character(char c);
/// EINVAL unless the name is 1 to 63 letters, digits, '-', '_' and '.', the first a letter or
/// digit.
Result<void> check_node_name(const std::string& node);

/// $XDG_RUNTIME_DIR/verbatim / net-COOKIE, both of mode 0700 and ours. Without a runtime directory
/// of the user's the first is /tmp/verbatim-UID, or verbatim-UID.1, .2... where another user was
/// first.
class RuntimeFolder {
 public:
  /// How many names in the temporary directory are tried.
  static constexpr int kCandidates = 16;

  /// Makes the folder where it is missing. EPERM where something that is not ours, or not ours
  /// alone, is in its place: in the temporary directory, in the place of every candidate.
  static Result<RuntimeFolder> open(const std::string& temporary = "/tmp");

  const std::string& path() const { return path_; }
  std::string socket(const std::string& node) const { return file(node, "sock"); }
  /// Held by the agent as long as it runs.
  std::string agent_lock(const std::string& node) const { return file(node, "lock"); }
  /// Held by who starts the agent, until it is ready.
  std::string start_lock(const std::string& node) const { return file(node, "start"); }
  /// Byte N is locked by the program in slot N.
  std::string programs(const std::string& node) const { return file(node, "programs"); }
  /// A folder: the node's view of /sys and /dev.
  std::string view(const std::string& node) const { return file(node, "view"); }
  std::string log(const std::string& node) const { return file(node, "log"); }
  /// Held by the agent whose node has the address or interface.
  std::string claim(const std::string& what) const { return path_ + "/claim-" + what; }

  /// Of programs, by name (base/os/name_locks.h).
  NameLocks locks() const { return NameLocks(path_ + "/locks"); }

  /// Names of nodes that have a socket here, sorted. Their agents may be dead.
  std::vector<std::string> nodes() const;
  /// Removes the folders if nothing is left in them.
  void remove_if_empty() const;

 private:
  std::string file(const std::string& node, const char* ending) const {
    return path_ + "/" + node + "." + ending;
  }
  std::string base_;
  std::string path_;
};

/// A file that is locked exclusively (flock) while this object lives. The owner may remove it:
/// whoever waits for it then notices that it locked a file that is no longer there, and begins
/// anew.
class LockFile {
 public:
  /// EWOULDBLOCK where it is still held after `timeout_ns`.
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

/// A SOCK_SEQPACKET socket connected to the path, whose waits are bounded. ENOENT and ECONNREFUSED:
/// nobody listens.
Result<UniqueFd> connect_to(const std::string& path);
/// A SOCK_SEQPACKET socket that listens there; an older file in its place is removed.
Result<UniqueFd> listen_at(const std::string& path);

}  // namespace verbatim::agent
