#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "base/time.h"
#include "cm/ib/guard/source.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// State of a connection or a service resolution (IBA 12.9.5 to 12.9.7, 12.11).
enum class State : std::uint8_t {
  request_sent,      // Active: repeats the REQ until a REP or REJ comes.
  reply_received,    // Active: the user brings the queue pair up.
  request_received,  // Passive: the user decides.
  reply_sent,        // Passive: repeats the REP until the RTU comes.
  established,       // No message is outstanding.
  disconnect_sent,   // Repeats the DREQ until the DREP comes.
  time_wait,         // Packets of the connection may still arrive.
  refused,           // Passive: sends our REJ again if the REQ comes again.
  resolve_sent,      // Repeats the SIDR_REQ until the SIDR_REP comes.
  resolve_received,  // The user decides.
  resolve_answered,  // Sends our SIDR_REP again if the SIDR_REQ comes again.
};

/// Why a connection is kept. Peers can cause all but the first, so each of these has a bound
/// (Settings).
enum class Kept : std::uint8_t {
  freely,      // The user asked for it, or it is established.
  half_open,   // A peer has asked for it, and it is not established.
  remembered,  // It has ended, but the answer may have to be repeated.
  ending,      // Waits for the peer's DREP, or for the end of TimeWait.
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

/// Identifies a REQ or a SIDR_REQ by its sender, to recognise its repetitions (IBA 12.9.8.3.1).
struct PeerKey {
  Source source{};
  wire::CommunicationId id{};
  std::uint64_t node = 0;  // The channel adapter's GUID; 0 for a SIDR_REQ, which has none.
  bool resolves = false;   // A SIDR_REQ.
  friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
};

/// A peer's queue pair, which has one connection at a time (IBA 12.9.8.3.1).
struct PeerQueuePair {
  Source source{};
  std::uint64_t node = 0;
  std::uint32_t qpn = 0;
  friend auto operator<=>(const PeerQueuePair&, const PeerQueuePair&) = default;
};

/// Returns a time-out that a peer or the user chose, limited to 67 ms to 69 s.
constexpr TimeNs message_timeout_ns(std::uint8_t exponent) {
  return wire::cm_time_ns(std::clamp<std::uint8_t>(exponent, 14, 24));
}

/// The longest time-out that we accept from a peer: 8.6 s. For TimeWait this covers the lifetime of
/// packets; for a REP it is twice what Linux asks for.
inline constexpr std::uint8_t kPeerTimeoutMax = 21;
constexpr std::uint8_t within_reason(std::uint8_t peers_timeout) {
  return std::min(peers_timeout, kPeerTimeoutMax);
}

/// The time that our MRA asks for: 69 s, as Linux does.
inline constexpr std::uint8_t kServiceTimeout = 24;

/// A connection or resolution, as the engine keeps it.
struct Connection {
  ConnectionId id{};
  State state{};
  bool active = false;      // We asked.
  bool released = false;    // The user has released it: only MADs are sent for it.
  bool stale_once = false;  // The peer has taken our queue pair for one of an earlier connection.
  // We have sent an MRA: the peer waits longer before it repeats its message.
  bool has_delayed = false;
  ListenerId waits_at{};    // The listener whose backlog counts it; 0: none.
  std::uint64_t since = 0;  // Serial number of the time when `kept_in` last changed.
  wire::CommunicationId remote_id{};
  std::uint64_t transaction = 0;
  ServiceId service{};
  CmTransport transport = CmTransport::rc;
  Path path;
  Qpn remote_qpn{};
  PeerKey peer;                   // Its entry in the table of peers.
  PeerQueuePair peer_queue_pair;  // Its entry in the table of queue pairs; QPN 0 for none.
  SendMad last;               // Sent again when the timer expires or the peer repeats its message.
  TimeNs timer = kNever;      // As set in `Timers`.
  TimeNs repeat_after = 0;    // Time to wait for an answer.
  unsigned retries = 0;       // For each message.
  unsigned retries_left = 0;  // For the message that is being repeated.
  TimeNs remember = 0;        // How long a refusal is remembered for repetitions.

  void set_retry(const RetryPolicy& retry) {
    repeat_after = message_timeout_ns(retry.response_timeout);
    retries = retry.retries;
    remember = 2 * repeat_after;
  }
};

}  // namespace verbatim::cm
