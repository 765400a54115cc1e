#pragma once

#include <cerrno>
#include <cstring>
#include <expected>
#include <string>
#include <utility>

namespace verbatim {

/// Why the caller cannot have what they asked for: an errno value, which the drop-ins return as it
/// is, and the exact cause in words, which the first function that knows it writes.
struct Error {
  int code = 0;
  std::string text;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> refuse(int code, std::string text) {
  return std::unexpected(Error{code, std::move(text)});
}

/// The same after a failed system call: the code is errno, the text `what: ` and errno in words.
inline std::unexpected<Error> refuse_errno(const std::string& what) {
  const int code = errno;
  return refuse(code, what + ": " + std::strerror(code));
}

}  // namespace verbatim
