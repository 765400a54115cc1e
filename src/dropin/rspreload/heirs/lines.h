#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "base/os/unique_fd.h"

namespace verbatim::rspreload {

/// To a child and its children.
struct Line {
  UniqueFd end;
  std::uint32_t born = 0;
  std::set<std::uint32_t> closed;  // Serial numbers.

  /// Whether somebody behind it has the stream of this serial number, open.
  bool may_have(std::uint32_t serial) const { return born > serial && !closed.contains(serial); }
};

/// What fork(2) needs. Its lock is never held while an rsocket is used: their locks are other
/// libraries', which take them around fork, too.
class Forks {
 public:
  void before();
  /// Returns true if there is a new line.
  bool in_parent();
  void in_child();

  std::vector<Line> take_new();
  /// A child closes these: they must end with this process.
  void add_private(int fd);
  void remove_private(int fd);

 private:
  std::mutex mutex_;
  UniqueFd parents_;  // The line that is being made.
  UniqueFd childs_;
  std::vector<Line> new_;
  std::vector<int> private_;
};

}  // namespace verbatim::rspreload
