#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "agent/protocol/node.h"
#include "base/net/path.h"
#include "base/time.h"
#include "cm/ib/guard/source.h"
#include "mad/mad.h"
#include "wire/mad/management_packet.h"

namespace verbatim::agent {

using mad::Mad;

struct EarlyRequest {
  TimeNs due = 0;  // It is refused then.
  std::uint32_t address = 0;
  Path peer;
  Qpn source_qpn = wire::kManagementQpn;
  std::uint16_t pkey_index = 0;
  std::array<std::byte, wire::kMadBytes> bytes{};

  /// Borrows the bytes.
  Mad mad() const {
    return {.peer = peer,
            .own_address = address,
            .source_qpn = source_qpn,
            .pkey_index = pkey_index,
            .bytes = bytes};
  }
};

/// Requests for a service without a listener. Between two hosts a request takes longer than here,
/// and a program that listens again after its first connection (as perftest) does so before the
/// second request arrives. A busy machine is late, so a request waits before it is refused; longer
/// if a living program has just stopped listening, since it may be about to listen again.
class EarlyRequests {
 public:
  static constexpr TimeNs kTimeout = 100 * kMillisecond;
  static constexpr TimeNs kTimeoutAfterListener = 2000 * kMillisecond;
  /// How long a listener that has gone is remembered.
  static constexpr TimeNs kMemory = 10'000 * kMillisecond;
  static constexpr std::size_t kMax = 1024;
  /// For one address (or IPv6 network), so that it cannot take all places.
  static constexpr std::size_t kMaxOfSource = 64;

  void on_listener_gone(const ServiceRange& services, TimeNs now);
  /// An earlier agent knew the listeners: any service may have one.
  void on_listeners_unknown(TimeNs now) { unknown_until_ = now + kMemory; }
  /// Returns false if too many wait. `is_expected`: a listener is on its way.
  bool add(ServiceId service, const EarlyRequest& request, TimeNs now, bool is_expected = false);
  /// Calls `serve(request)`, which returns true if a listener has accepted it; of the others, those
  /// that are due are passed to `refuse(request)`.
  template <typename Serve, typename Refuse>
  void step(TimeNs now, Serve serve, Refuse refuse) {
    std::erase_if(waiting_, [&](const EarlyRequest& request) {
      const bool is_served = serve(request);
      if (!is_served && now < request.due) return false;
      if (!is_served) refuse(request);
      forget_source(request);
      return true;
    });
    find_next_deadline();
  }
  TimeNs next_deadline() const { return next_deadline_; }

 private:
  bool listened_recently(ServiceId service, TimeNs now) const;
  void forget_source(const EarlyRequest& request);
  void find_next_deadline();

  std::vector<EarlyRequest> waiting_;
  std::map<cm::Source, std::size_t> count_of_;
  TimeNs next_deadline_ = kNever;
  std::map<ServiceRange, TimeNs> listened_until_;
  TimeNs unknown_until_ = 0;
};

}  // namespace verbatim::agent
