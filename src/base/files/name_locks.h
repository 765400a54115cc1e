#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"

namespace verbatim {

/// Locks with names, between processes. Each name maps to a byte of one file, far beyond its end;
/// the lock (F_OFD_SETLK) belongs to a descriptor and ends with its last copy, however its
/// processes end. Only one user can open the file, so no other user can take a lock first, as with
/// the name of an abstract socket. Two names share a byte with a probability of 2^-62.
class NameLocks {
 public:
  enum class Kind { shared, exclusive };

  NameLocks() = default;
  /// `path`: the lock file; `take` creates it.
  explicit NameLocks(std::string path) : path_(std::move(path)) {}

  /// Returns a descriptor that holds the lock. EWOULDBLOCK if another descriptor still holds it
  /// after `patience`.
  Result<UniqueFd> take(std::string_view name, Kind kind, TimeNs patience = 0) const;
  /// Returns true if any descriptor of any process holds the lock.
  Result<bool> is_held(std::string_view name) const;
  /// Removes the file if no lock is held. A thread that is about to take a lock notices it and
  /// starts again.
  void remove_if_free() const;

 private:
  Result<UniqueFd> open() const;
  std::string path_;
};

}  // namespace verbatim
