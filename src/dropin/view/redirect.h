#pragma once

#include <climits>
#include <cstddef>

/// Redirection of paths in /sys and /dev to the view, and of those of a storage target's tree to
/// its folder (tree.h); of what storage initiators see, to the folder of their daemon (initiator.h)
/// while it has what is looked for.
namespace verbatim::view {

/// Returns the folder in VERBATIM_VIEW; null if it is not set or not an absolute path.
const char* root();

/// Returns the folder in VERBATIM_TARGET; null if it is not set or not an absolute path.
const char* target_root();
/// Returns the folder in VERBATIM_INITIATOR; null if it is not set or not an absolute path.
const char* initiator_root();
/// True if the path is `folder` or inside it; repeated slashes count as one. `rest`: what follows.
bool lies_in(const char* path, const char* folder, const char** rest = nullptr);

/// A program's path, redirected into the view if it belongs there. Valid during the call that it is
/// made for. Async-signal-safe: no allocation, no lock, errno unchanged.
class Redirected {
 public:
  /// `path` may be null.
  explicit Redirected(const char* path) : Redirected(path, root()) {}
  Redirected(const char* path, const char* view_root);
  const char* path() const { return path_; }
  bool is_ours() const { return path_ == buffer_; }
  /// False for files that programs make for themselves.
  bool is_of_view() const { return is_of_view_; }

 private:
  bool take_initiators(const char* path);
  void join(const char* folder, const char* inside, const char* rest);
  const char* path_;
  bool is_of_view_ = false;
  char buffer_[PATH_MAX];
};

/// True for a file of the view that nobody may write, root neither, as in sysfs; the caller's errno
/// is then EACCES. Its mode has no bit of writing, or there is no such file.
bool refuses_writing(const Redirected& file);

/// Converts a path inside the view to the one that programs know, in place; other paths stay.
void strip_root(char* path, const char* view_root = root());

}  // namespace verbatim::view
