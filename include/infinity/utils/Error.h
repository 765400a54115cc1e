#pragma once

#include <stdexcept>
#include <string>

namespace infinity {
namespace utils {

/// Thrown by every call that cannot do what it is asked: Infinity ends the program there if it was
/// built with assertions, and goes on with something broken if not. `what()` names the call, its
/// values and the usual cause. A program that catches nothing ends with that line.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text, int code = 0) : std::runtime_error(text), code_(code) {}
  /// An errno, or 0 where the arguments are at fault.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

}  // namespace utils
}  // namespace infinity
