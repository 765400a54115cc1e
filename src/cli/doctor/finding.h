#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbatim::cli::doctor {

enum class Verdict : std::uint8_t {
  ok,
  note,   // Works, but worse than it could, or not as a user may expect.
  fault,  // Does not work. `verbatim doctor` exits with status 1.
};

/// Result of a check: a sentence about the state, and one of advice.
struct Finding {
  Verdict verdict = Verdict::ok;
  std::string subject;  // One or two words: "open files".
  std::string text;
  std::string advice;  // Empty if `verdict` is ok.
};
using Findings = std::vector<Finding>;

inline Finding ok(std::string subject, std::string text) {
  return {Verdict::ok, std::move(subject), std::move(text), {}};
}
inline Finding note(std::string subject, std::string text, std::string advice) {
  return {Verdict::note, std::move(subject), std::move(text), std::move(advice)};
}
inline Finding fault(std::string subject, std::string text, std::string advice) {
  return {Verdict::fault, std::move(subject), std::move(text), std::move(advice)};
}

}  // namespace verbatim::cli::doctor
