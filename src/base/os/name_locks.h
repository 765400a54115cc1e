#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"

namespace verbatim {

/// Locks that have names, between processes: a name is a byte of one file, far behind its end, and
/// the lock (F_OFD_SETLK) belongs to a descriptor. It ends with the descriptor's last copy, however
/// its processes end. The file lies where only one user may open it: unlike the name of an abstract
/// socket, nobody else can take it first. Two names have the same byte with a probability of 2^-62.
class NameLocks {
 public:
  enum class Kind { shared, exclusive };

  NameLocks() = default;
  /// `path`: the file, made where it is missing.
  explicit NameLocks(std::string path) : path_(std::move(path)) {}

  /// A descriptor that holds the lock. EWOULDBLOCK where it is still held by another descriptor
  /// after `patience`.
  Result<UniqueFd> take(std::string_view name, Kind kind, TimeNs patience = 0) const;
  /// Whether any descriptor holds it, of whatever process.
  Result<bool> is_held(std::string_view name) const;
  /// Removes the file, if nobody holds a lock. Who is about to take one notices.
  void remove_if_free() const;

 private:
  Result<UniqueFd> open() const;
  std::string path_;
};

}  // namespace verbatim
