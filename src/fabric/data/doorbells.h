#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::fabric {

/// Wakes threads that sleep until something comes to their end: a Unix datagram socket for each,
/// found by its path in the fabric's folder, so that network namespaces do not part them.
class Doorbells {
 public:
  Doorbells() = default;
  /// Makes no file. ENOENT...: what the kernel says of the folder.
  static Result<Doorbells> open(const std::string& folder);

  /// The socket that becomes readable when others ring. What is left of an earlier program there is
  /// removed.
  Result<UniqueFd> listen(std::uint32_t end) const;
  /// Never waits. Any thread.
  void ring(std::uint32_t end) const noexcept;
  /// Makes the socket unreadable until it is rung again.
  static void silence(int listener) noexcept;
  void remove(std::uint32_t end) const noexcept;

 private:
  std::string path_of(std::uint32_t end) const;
  std::string folder_;
  UniqueFd folder_fd_;  // By which paths go that would be too long for an address.
  UniqueFd sender_;
};

}  // namespace verbatim::fabric
