#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
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

/// Who sent a REQ or a SIDR_REQ, so that its repetition is recognized (IBA 12.9.8.3.1).
struct PeerKey {
  wire::CommunicationId id{};
  std::uint64_t node = 0;  // The channel adapter's GUID; for a SIDR_REQ a digest of the address.
  friend bool operator==(const PeerKey&, const PeerKey&) = default;
};

/// The peer's queue pair: it has one connection at a time (IBA 12.9.8.3.1).
struct PeerQueuePair {
  std::uint64_t node = 0;
  Qpn qpn{};
  friend bool operator==(const PeerQueuePair&, const PeerQueuePair&) = default;
};

struct KeyHash {
  static std::size_t mix(std::uint64_t a, std::uint64_t b) {
    return static_cast<std::size_t>((a ^ b * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9 >> 7);
  }
  std::size_t operator()(const PeerKey& key) const { return mix(key.node, raw(key.id)); }
  std::size_t operator()(const PeerQueuePair& key) const { return mix(key.node, key.qpn.value()); }
};

/// A time that a peer or the user chose, within reason: 67 ms to 69 s.
constexpr TimeNs patience_ns(std::uint8_t exponent) {
  return wire::cm_time_ns(std::clamp<std::uint8_t>(exponent, 14, 24));
}

/// What our MRA asks for: Linux's figure, 69 s.
inline constexpr std::uint8_t kServiceTimeout = 24;

/// What the engine knows of one connection or resolution.
struct Connection {
  ConnectionId id{};
  State state{};
  bool active = false;      // We asked.
  bool released = false;    // The user has forgotten it: no effect but MADs.
  bool stale_once = false;  // The peer took our queue pair for one of an earlier life.
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

  void persist(const Persistence& persistence) {
    repeat_after = patience_ns(persistence.response_timeout);
    retries = persistence.retries;
    remember = 2 * repeat_after;
  }
};

}  // namespace verbatim::cm
