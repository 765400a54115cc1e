#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "cm/iwarp/mpa_setup.h"
#include "link/tcp/tcp_stream.h"
#include "region/region_table.h"
#include "transport/iwarp/endpoint.h"
#include "transport/iwarp/stream.h"

namespace verbatim::adapter::services {

/// The iWARP stream of a queue pair: the engine, and the TCP connection below it.
struct StreamConnection {
  /// A peer that has sent nothing after so long has seen the Reply, or hears again that we are
  /// ready: `siw` (6.1) misses what comes while it still prepares its socket.
  static constexpr TimeNs kFirstSegmentTimeout = 50 * kMillisecond;

  StreamConnection(link::TcpStream connection, const cm::MpaParameters& agreed,
                   std::uint32_t capacity)
      : tcp(std::move(connection)),
        endpoint(capacity),
        reader({.has_crc = agreed.has_crc, .has_markers = agreed.receives_markers}),
        writer({.has_crc = agreed.has_crc, .has_markers = agreed.sends_markers}),
        agreement(agreed) {
    holds.reserve(link::TcpStream::kPiecesMax);
  }

  link::TcpStream tcp;
  transport::iwarp::Endpoint endpoint;
  transport::iwarp::FpduReader reader;
  transport::iwarp::FpduWriter writer;
  cm::MpaParameters agreement;
  /// Of what `tcp` has borrowed.
  std::vector<region::Hold> holds;
  /// When a request was last sent by the call that posted it.
  TimeNs posted_at = 0;
  bool is_initiator = false;
  /// Until a segment has come: when to go on without one, or to say again that this side is ready.
  TimeNs goes_on_at = kNever;
  std::uint32_t rtr_repeats = 0;  // So many times again.
  bool awaits_room = false;       // The socket did not take all.
  bool ends_when_sent = false;    // Nothing is added to what waits.
  bool has_ended = false;         // Nothing comes any more.
  /// The polls look at it, for the peer's requests may come over it; otherwise only its end does.
  bool is_polled = true;
  /// Of the direct path: the random number by which each end's target knows the other. 0: none yet.
  std::uint64_t cookie = 0;
  /// Whether the peer is of this machine, and takes the direct path as well, is not known yet:
  /// until then requests wait.
  bool negotiates_path = false;
};

/// The longest DDP segment whose FPDU fits one TCP segment, markers or not (RFC 5044, section 5.1).
std::uint32_t ddp_segment_bytes(std::size_t tcp_segment_bytes, bool has_markers);

}  // namespace verbatim::adapter::services
