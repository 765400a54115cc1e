#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"

/// Starting our own programs.
namespace verbatim::service {

/// The path of one of our programs ("verbatim-ulpd"): beside this one, as in a build or an
/// installation, else in PATH. ENOENT says where it was looked for.
Result<std::string> find_program(const std::string& name);

struct Launch {
  std::string program;                 // Its path.
  std::vector<std::string> arguments;  // Without the program, and without --ready-fd.
  std::vector<std::pair<std::string, std::string>> environment{};  // Set in addition.
  TimeNs patience = 10 * kSecond;                                  // For its readiness.
};

/// Starts a program as nobody's child, in a session of its own, with /dev/null as its input and our
/// output, and does not wait for it. `patience` counts nothing.
Result<void> start_apart(const Launch& launch);

/// Starts a daemon and waits until it serves. It is nobody's child, in a session of its own, with
/// /dev/null as its input and output, and has no descriptor of this process but the ready pipe.
/// What it logs until it serves is printed to our standard error.
/// Errors: what the daemon says, or ETIMEDOUT.
Result<void> start_daemon(const Launch& launch);

}  // namespace verbatim::service
