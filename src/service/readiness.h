#pragma once

#include <string>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"

/// How a daemon tells whoever started it that it serves, by the pipe `--ready-fd`: an errno value
/// and words. 0: it serves. Nothing: it has ended.
namespace verbatim::service {

/// The daemon's side.
class Readiness {
 public:
  Readiness() = default;
  explicit Readiness(UniqueFd pipe);
  /// Tells systemd (sd_notify(3)), too.
  void tell();
  /// Returns false if nobody waits. The other side learns of it when this process has ended.
  bool fail(const Error& error);

 private:
  bool say(const Error& error) const;

  UniqueFd pipe_;
};

/// The other side: returns what the daemon says. ETIMEDOUT: nothing within `patience`; ECHILD: it
/// has ended without a word.
Result<void> wait_until_ready(int pipe, const std::string& program, TimeNs patience);

/// Sends what this process logs into a file, each line with its time (UTC).
Result<void> log_into(const std::string& file);

}  // namespace verbatim::service
