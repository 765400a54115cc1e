#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "base/time.h"
#include "cm/ib/guard/source.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// Where a connection or a service resolution is in its life (IBA 12.9.5 to 12.9.7, 12.11).
enum class State : std::uint8_t {
  request_sent,      // Active: the REQ is repeated until REP or REJ come.
  reply_received,    // Active: the user brings the queue pair up.
  request_received,  // Passive: the user decides.
  reply_sent,        // Passive: the REP is repeated until the RTU comes.
  established,       // Nothing is on its way.
  disconnect_sent,   // The DREQ is repeated until the DREP comes.
  time_wait,         // Packets of the connection may still be on their way.
  refused,           // Passive: our REJ is repeated if the REQ comes again.
  resolve_sent,      // The SIDR_REQ is repeated until the SIDR_REP comes.
  resolve_received,  // The user decides.
  resolve_answered,  // Our SIDR_REP is repeated if the SIDR_REQ comes again.
};

/// States whose connections somebody else can make us keep. Each kind has a bound (Settings).
enum class Kept : std::uint8_t {
  freely,      // The user asked for it, or it stands.
  half_open,   // A peer has asked, and it does not stand yet.
  remembered,  // It is over, but the answer may have to be repeated.
  ending,      // The peer's DREP, or the end of TimeWait, is awaited.
};
constexpr Kept kept_in(State state) {
  switch (state) {
    case State::request_received:
    case State::reply_sent:
    case State::resolve_received:
      return Kept::half_open;
    case State::refused:
    case State::resolve_answered:
      return Kept::remembered;
    case State::disconnect_sent:
    case State::time_wait:
      return Kept::ending;
    case State::request_sent:
    case State::reply_received:
    case State::established:
    case State::resolve_sent:
      break;
  }
  return Kept::freely;
}

/// Names a REQ or a SIDR_REQ by its sender, so that its repetition is recognized (IBA 12.9.8.3.1).
struct PeerKey {
  Source source{};
  wire::CommunicationId id{};
  std::uint64_t node = 0;  // The channel adapter's GUID; 0 for a SIDR_REQ, which carries none.
  bool resolves = false;   // A SIDR_REQ.
  friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
};

/// The peer's queue pair: it has one connection at a time (IBA 12.9.8.3.1).
struct PeerQueuePair {
  Source source{};
  std::uint64_t node = 0;
  std::uint32_t qpn = 0;
  friend auto operator<=>(const PeerQueuePair&, const PeerQueuePair&) = default;
};

/// A time that a peer or the user chose, within reason: 67 ms to 69 s.
constexpr TimeNs message_timeout_ns(std::uint8_t exponent) {
  return wire::cm_time_ns(std::clamp<std::uint8_t>(exponent, 14, 24));
}

/// The longest time that a peer can choose for a connection of ours: 8.6 s. For TimeWait it covers
/// what packets spend on their way; for a REP it is twice what Linux asks for.
inline constexpr std::uint8_t kPeerTimeoutMax = 21;
constexpr std::uint8_t within_reason(std::uint8_t peers_timeout) {
  return std::min(peers_timeout, kPeerTimeoutMax);
}

/// What our MRA asks for: Linux's figure, 69 s.
inline constexpr std::uint8_t kServiceTimeout = 24;

/// What the engine knows of one connection or resolution.
struct Connection {
  ConnectionId id{};
  State state{};
  bool active = false;       // We asked.
  bool released = false;     // The user has forgotten it: no effect but MADs.
  bool stale_once = false;   // The peer took our queue pair for one of an earlier life.
  bool has_delayed = false;  // We have sent an MRA: the peer does not repeat its message soon.
  ListenerId waits_at{};     // The listener whose backlog counts it; 0: none.
  std::uint64_t since = 0;   // When it came to be kept as `kept_in` says: a serial number.
  wire::CommunicationId remote_id{};
  std::uint64_t transaction = 0;
  ServiceId service{};
  CmTransport transport = CmTransport::rc;
  Path path;
  Qpn remote_qpn{};
  PeerKey peer;                   // Its entry in the table of peers.
  PeerQueuePair peer_queue_pair;  // Its entry in the table of queue pairs; QPN 0 for none.
  SendMad last;                   // Repeated by the timer, or when the peer repeats.
  TimeNs timer = kNever;          // As `Timers` has it.
  TimeNs repeat_after = 0;        // How long an answer may take.
  unsigned retries = 0;           // For each message.
  unsigned retries_left = 0;      // For the one that is being repeated.
  TimeNs remember = 0;            // How long a refusal is kept for repetitions.

  void set_retry(const RetryPolicy& retry) {
    repeat_after = message_timeout_ns(retry.response_timeout);
    retries = retry.retries;
    remember = 2 * repeat_after;
  }
};

}  // namespace verbatim::cm
