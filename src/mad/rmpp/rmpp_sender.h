#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "mad/rmpp/rmpp_packet.h"

namespace verbatim::mad {

/// How often, and for how long, a sender waits for an acknowledgement.
struct RmppPatience {
  TimeNs ack_timeout = 0;  // 0 or above 2 s: 2 s.
  unsigned retries = 0;
};

/// One message on its way to one peer (IBA 13.6.5): segments as far as the peer's window allows,
/// again from the first one that is not acknowledged.
class RmppSender {
 public:
  static constexpr TimeNs kAckTimeoutMax = 2 * kSecond;

  /// `message`: the headers of its class, at least, as in its first segment, then the data of all
  /// segments. `window`: the last segment that the peer takes now.
  RmppSender(ByteSpan message, std::size_t header_bytes, const RmppPatience& patience,
             std::uint32_t window);

  bool may_send() const { return next_ <= window_ && next_ <= segments_; }
  /// Requires `may_send`.
  MadBytes next_segment(TimeNs now);

  /// True once all is acknowledged. Why the transfer is aborted, if the peer cannot mean that.
  std::expected<bool, wire::RmppStatus> on_ack(std::uint32_t segment, std::uint32_t window);
  bool is_acknowledged() const { return acknowledged_ == segments_; }

  TimeNs deadline() const { return deadline_; }
  /// No acknowledgement came in time. Returns false if there have been enough retries.
  bool on_timeout(TimeNs now);

 private:
  std::vector<std::byte> message_;
  std::size_t header_bytes_;
  std::uint32_t segments_;
  RmppPatience patience_;
  unsigned retries_left_;
  std::uint32_t window_;
  std::uint32_t next_ = 1;
  std::uint32_t sent_ = 0;  // The last one that was ever sent.
  std::uint32_t acknowledged_ = 0;
  TimeNs deadline_ = kNever;
};

}  // namespace verbatim::mad
