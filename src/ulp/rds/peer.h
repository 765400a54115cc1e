#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "ulp/rds/connection.h"
#include "ulp/rds/outside.h"

namespace verbatim::ulp::rds {

/// What a broker has of a pair of addresses. It stays as long as the broker.
struct Peer {
  enum class State : std::uint8_t {
    down,
    connecting,  // This side has asked.
    accepting,   // The other side has.
    up,
    ending,  // Work of the queue pair is still out.
  };
  Peer(const Pair& who, Fragments& pool, std::uint64_t first)
      : pair(who), connection(pool, first) {}

  const Pair pair;
  Connection connection;
  CongestionMap map;  // The peer's.
  bool is_map_set = false;
  State state = State::down;
  LinkId link{};
  std::uint64_t acknowledged = 0;  // By the private data of the queue pair that is being made.
  TimeNs retry_at = kNever;
  TimeNs back_off = 0;
  TimeNs down_since = 0;         // Or since its first message.
  bool was_up = false;           // The queue pair, before it was cut.
  std::uint64_t held_bytes = 0;  // Of its messages that programs have not read.
  bool is_dirty = false;         // It has something to send.

  std::uint64_t sent = 0, received = 0, repeated = 0, connects = 0;
  std::string why;  // The last queue pair has ended.
};

const char* name_of(Peer::State state);

}  // namespace verbatim::ulp::rds
