#pragma once

#include <cerrno>
#include <cstring>
#include <expected>
#include <string>
#include <utility>

namespace verbatim {

/// A refusal: an errno value, which the drop-ins return unchanged, and the exact cause in words,
/// written by the first function that knows it.
struct Error {
  int code = 0;
  std::string text;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> refuse(int code, std::string text) {
  return std::unexpected(Error{code, std::move(text)});
}

/// Refuses after a failed system call: the code is errno, the text is `what: ` and strerror(errno).
inline std::unexpected<Error> refuse_errno(const std::string& what) {
  const int code = errno;
  return refuse(code, what + ": " + std::strerror(code));
}

}  // namespace verbatim
