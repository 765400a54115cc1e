#pragma once

#include <array>
#include <cerrno>
#include <string>

#include <unistd.h>

namespace verbatim::cli {

/// Reads from the descriptor until its end, or until an error.
inline std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t length = read(fd, part.data(), part.size());
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(length));
  }
}

}  // namespace verbatim::cli
