#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "ulp/nvmeof/notices/error_log.h"
#include "ulp/nvmeof/notices/notices.h"
#include "ulp/nvmeof/subsystem.h"
#include "ulp/nvmeof/wire/connect.h"

namespace verbatim::ulp::nvmeof {

/// What a target has room for, as its controllers tell hosts.
struct Limits {
  std::uint16_t io_queues = 128;       // Of one controller.
  std::uint32_t queue_entries = 128;   // Of one I/O queue: MQES + 1.
  std::uint32_t capsule_bytes = 4160;  // A command with 4 KiB of data.
  std::uint32_t controllers = 2048;
};
inline constexpr std::uint32_t kAdminEntries = 32;

/// What a host has of a subsystem: its registers and its queues. One without a subsystem is a
/// discovery controller.
class Controller {
 public:
  /// A discovery controller whose host says nothing of keep alive ends after this, as Linux's does.
  static constexpr std::uint32_t kDiscoveryKeepAliveMs = 120'000;

  Controller(std::uint16_t id, const Subsystem* subsystem, const ConnectData& host,
             std::uint32_t keep_alive_ms, const Limits& limits)
      : id_(id), subsystem_(subsystem), host_(host), limits_(limits) {
    if (subsystem == nullptr && keep_alive_ms == 0) keep_alive_ms = kDiscoveryKeepAliveMs;
    set_keep_alive_ms(keep_alive_ms);
  }

  std::uint16_t id() const { return id_; }
  const Subsystem* subsystem() const { return subsystem_; }
  bool is_discovery() const { return subsystem_ == nullptr; }
  const ConnectData& host() const { return host_; }
  const Limits& limits() const { return limits_; }

  /// Nothing: there is no such register, or it is read-only.
  std::optional<std::uint64_t> property(Property property) const;
  bool set_property(Property property, std::uint64_t value);
  /// The host has enabled it, and may send commands other than the fabric's.
  bool is_ready() const { return (configuration_ & kEnable) != 0; }

  /// Rounded up to what KAS says, a second. 0: the host need not say that it lives.
  void set_keep_alive_ms(std::uint32_t ms) { keep_alive_ms_ = (ms + 999ull) / 1000 * 1000; }
  std::uint64_t keep_alive_ms() const { return keep_alive_ms_; }
  /// How long the host may be silent. It says that it lives twice as often.
  TimeNs patience() const {
    return keep_alive_ms_ == 0 ? kNever : keep_alive_ms_ * kMillisecond + kSecond;
  }

  /// An administrator has taken the subsystem away from the host: its queues end.
  void end() { must_end_ = true; }
  bool must_end() const { return must_end_; }

  bool has_queue(std::uint16_t queue) const { return queues_[queue]; }
  void set_queue(std::uint16_t queue, bool is_there) { queues_[queue] = is_there; }
  std::size_t queue_count() const { return queues_.count(); }
  static constexpr std::size_t kQueuesMax = 1024;

  std::uint32_t event_mask = 0;  // Feature 0x0b, as the host has set it.
  Notices notices;
  ErrorLog errors;
  /// Feature 0x82, by namespace: events of reservations that the host does not want. A bit each.
  std::map<std::uint32_t, std::uint32_t> reservation_masks;

 private:
  static constexpr std::uint32_t kEnable = 1, kShutdown = 0xc000;                  // CC
  static constexpr std::uint32_t kReady = 1, kShutdownComplete = 0x8, kFatal = 2;  // CSTS

  const std::uint16_t id_;
  const Subsystem* const subsystem_;
  const ConnectData host_;
  const Limits limits_;
  std::uint64_t keep_alive_ms_ = 0;
  std::uint32_t configuration_ = 0;
  std::uint32_t status_ = 0;
  std::bitset<kQueuesMax> queues_;
  bool must_end_ = false;
};

}  // namespace verbatim::ulp::nvmeof
