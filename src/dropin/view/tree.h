#pragma once

#include <climits>
#include <cstddef>
#include <cstdio>

#include <sys/types.h>

/// The tree of a storage target (src/ulp/target/tree), which programs see at /sys/kernel/config.
/// Folders, links and modes are in a copy on disk, so most calls are redirected there; what
/// attributes hold, and all changes, are asked of the daemon over the socket beside the copy. No
/// allocation, no lock; errno changes as the call says.
namespace verbatim::view {

/// A path of the tree, relative to its root.
class TreePath {
 public:
  /// `folder`: as openat's. Of a relative path the folder is looked up, if a target's tree is
  /// there.
  TreePath(int folder, const char* path);
  bool is_ours() const { return is_ours_; }
  const char* path() const { return path_; }

 private:
  bool take_inside(const char* path);
  bool is_ours_ = false;
  char path_[PATH_MAX];
};

/// A change: 0, or -1 and errno. `second`: to what a link points, or a mode.
int change_tree(char request, const TreePath& path, const char* second = "");

/// Descriptor for reading an attribute's text, or -1 and errno; EISDIR: it is a folder.
int open_to_read(const TreePath& path, int flags);
/// Descriptor for writing an attribute: a connection to the daemon.
int open_to_write(const TreePath& path, int flags);

/// The program is an administrator's one that insists on being root.
bool acts_as_root();

}  // namespace verbatim::view
