#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/time.h"

namespace verbatim::agent {

/// Daemons that a peer's request starts: what a kernel's module answers on any host, a bare node
/// answers, too. Such a daemon ends when it has nothing to do.
class OnDemand {
 public:
  /// Any host can ask: a daemon is started so often at most, even if it fails at once.
  static constexpr TimeNs kBetweenStarts = 5 * kSecond;
  /// Starts `verbatim` with these words and does not wait. An option for the node is the caller's.
  using Start = std::function<Result<void>(const std::vector<std::string>& words)>;
  explicit OnDemand(Start start) : start_(std::move(start)) {}

  /// Nobody listens at the service. Returns true if its daemon is on its way.
  bool on_request(ServiceId service, TimeNs now);

 private:
  Start start_;
  TimeNs started_at_ = 0;
  bool is_on_its_way_ = false;
};

}  // namespace verbatim::agent
