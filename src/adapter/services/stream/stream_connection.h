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
  /// For the bytes that `tcp` references.
  std::vector<region::Hold> holds;
  /// When a post call last sent a request itself.
  TimeNs posted_at = 0;
  bool is_initiator = false;
  /// Until a segment arrives: when to continue without one, or to repeat the RTR message.
  TimeNs goes_on_at = kNever;
  std::uint32_t rtr_repeats = 0;  // Number of repetitions so far.
  bool awaits_room = false;       // The socket did not take everything.
  bool ends_when_sent = false;    // No more is added to the pending bytes.
  bool has_ended = false;         // Nothing arrives any more.
  /// Polls read it, because the peer's requests may arrive; if false, only its end matters.
  bool is_polled = true;
  /// Direct path: the random number by which the ends' targets recognise each other. 0: none yet.
  std::uint64_t cookie = 0;
  /// The path is not negotiated yet; requests wait.
  bool negotiates_path = false;
};

/// Returns the longest DDP segment whose FPDU fits in one TCP segment, with or without markers (RFC
/// 5044, section 5.1).
std::uint32_t ddp_segment_bytes(std::size_t tcp_segment_bytes, bool has_markers);

}  // namespace verbatim::adapter::services
