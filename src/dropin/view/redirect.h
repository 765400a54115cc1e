#pragma once

#include <climits>
#include <cstddef>

/// Redirection of paths in /sys and /dev to the view.
namespace verbatim::view {

/// Returns the folder in VERBATIM_VIEW; null if it is not set or not an absolute path.
const char* root();

/// A program's path, redirected into the view if it belongs there. Valid during the call that it is
/// made for. Async-signal-safe: no allocation, no lock, errno unchanged.
class Redirected {
 public:
  /// `path` may be null.
  explicit Redirected(const char* path, const char* view_root = root());
  const char* path() const { return path_; }
  bool is_ours() const { return path_ == buffer_; }

 private:
  const char* path_;
  char buffer_[PATH_MAX];
};

/// True for a file of the view that nobody may write, root neither, as in sysfs; the caller's errno
/// is then EACCES. Its mode has no bit of writing, or there is no such file.
bool refuses_writing(const Redirected& file);

/// Converts a path inside the view to the one that programs know, in place; other paths stay.
void strip_root(char* path, const char* view_root = root());

}  // namespace verbatim::view
