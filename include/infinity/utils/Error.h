#pragma once

#include <stdexcept>
#include <string>

namespace infinity {
namespace utils {

/// Thrown by each call that fails. (Infinity ends the program there if it was built with
/// assertions, and otherwise continues in an undefined state.) `what()` names the call, its values
/// and the usual cause. A program that does not catch it ends with that line.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text, int code = 0) : std::runtime_error(text), code_(code) {}
  /// Returns an errno value, or 0 if an argument is wrong.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

}  // namespace utils
}  // namespace infinity
