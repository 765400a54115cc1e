#pragma once

#include <climits>
#include <cstddef>

/// Which paths of /sys and /dev are the view's.
namespace verbatim::view {

/// The folder that VERBATIM_VIEW names; null where it is not set or no absolute path.
const char* root();

/// A path that programs give, led into the view where it is ours. Lives as long as the call that
/// it is for. Safe anywhere: no memory is allocated, nothing is locked, errno stays.
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

/// A path inside the view as programs know it: the reverse. In place; other paths stay.
void strip_root(char* path, const char* view_root = root());

}  // namespace verbatim::view
