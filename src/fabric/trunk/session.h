#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include "base/net/address.h"
#include "base/time.h"
#include "fabric/trunk/datagram.h"
#include "fabric/trunk/send_window.h"

namespace verbatim::fabric::trunk {

/// One side of a trunk: a cable to a port elsewhere, in UDP datagrams. A session is one training of
/// the link. It begins when both sides have heard the other's random number from each other, and
/// ends with any change at either side, or with silence. In it packets come in order, each once.
///
/// Nobody who does not see a side's datagrams can know its number: so a stranger can neither send
/// packets nor end a session. Who sees them, can: a trunk is as private as the network below.
///
/// A pure step: no socket, no clock. After each input the owner takes all datagrams.
class Session {
 public:
  struct Identity {
    /// A number of 64 bits for each session. Whoever asks may know earlier ones: they must not tell
    /// the next.
    std::function<std::uint64_t()> random;
    std::uint64_t node_guid = 0;
    std::uint8_t port = 0;
    /// The only address to talk with; none: whoever begins a session.
    std::optional<SocketAddress> peer;
  };
  struct Up {
    Hello peer;
  };
  struct Down {};
  using Event = std::variant<std::monostate, Up, Down, Packet>;
  struct Outgoing {
    ByteSpan bytes;
    SocketAddress to;
  };
  struct Counts {
    std::uint64_t damaged = 0;  // Datagrams that were none, or had a wrong CRC.
    std::uint64_t missing = 0;  // Gaps in the sequence.
  };

  explicit Session(Identity identity) : identity_(std::move(identity)), address_(identity_.peer) {}

  /// The port looks for a peer from now on, or (nullopt) no longer. Ends the session without an
  /// event.
  void set_offer(const std::optional<Offer>& offer, TimeNs now);
  const std::optional<Offer>& offer() const { return offer_; }
  bool is_up() const { return is_up_; }
  const std::optional<SocketAddress>& peer() const { return address_; }
  const Counts& counts() const { return counts_; }
  std::uint64_t repeated() const { return window_.repeated(); }

  bool has_room(bool is_management) const { return is_up_ && window_.has_room(is_management); }
  /// Data packets for which there is room.
  std::uint32_t room() const { return is_up_ ? window_.room() : 0; }
  void send(ByteSpan packet, bool is_management) { window_.push(peer_, packet, is_management); }

  /// A `Packet` is the next in order, borrowed from `bytes`.
  Event on_datagram(ByteSpan bytes, const SocketAddress& from, TimeNs now);

  /// What the peer may send. It is told when that has become much more.
  void set_limits(const Limits& limits);
  /// What this side may send: nothing before the peer has said it.
  const Limits& peer_limits() const { return peer_limits_; }

  /// The next datagram; nothing if there is none. Its bytes lie in `control`, of kControlBytesMax,
  /// or stay here until the next input.
  std::optional<Outgoing> next_datagram(MutableByteSpan control, TimeNs now);

  TimeNs deadline() const;
  /// `Down` or nothing.
  Event on_time(TimeNs now);

 private:
  static constexpr TimeNs kHelloInterval = 250 * kMillisecond;
  static constexpr TimeNs kKeepAlive = kSecond;
  static constexpr TimeNs kSilenceMax = 3 * kSecond + 500 * kMillisecond;
  /// An eighth of a lane's buffer.
  static constexpr std::uint32_t kLimitStep = 256;

  struct Answer {
    std::uint64_t to;
    SocketAddress address;
  };

  Event on_hello(const Hello& hello, std::uint64_t to, const SocketAddress& from, TimeNs now);
  void on_status(const Status& status, TimeNs now);
  Event on_packet(const Packet& packet);
  void note_gap();
  Event begin(const Hello& hello, const SocketAddress& from, TimeNs now);
  Event end(TimeNs now);
  void renew(TimeNs now);
  Hello hello() const;

  Identity identity_;
  std::optional<SocketAddress> address_;  // Of the peer, or of the last one.
  std::optional<Offer> offer_;
  std::uint64_t own_ = 0;   // 0: it does not look for a peer.
  std::uint64_t peer_ = 0;  // The peer's number, as far as it is known.
  bool is_up_ = false;
  bool is_confirmed_ = false;  // The peer has shown that it is up, too.
  SendWindow window_;
  std::uint32_t expected_ = 0;  // The next packet's number.
  bool has_told_gap_ = false;   // Once for each.
  Limits limits_{};
  Limits told_limits_{};
  Limits peer_limits_{};
  TimeNs heard_at_ = 0;
  TimeNs sent_at_ = 0;
  TimeNs hello_at_ = kNever;
  bool has_status_ = false;  // To be sent,
  bool has_gap_ = false;     // with a gap.
  std::optional<Answer> answer_;
  std::optional<Answer> bye_;
  Counts counts_;
};

}  // namespace verbatim::fabric::trunk
