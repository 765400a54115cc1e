#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ulp/engine/slice.h"
#include "ulp/rds/operation.h"
#include "ulp/rds/ports.h"
#include "ulp/rds/wire/header.h"

namespace verbatim::ulp::rds {

/// A message of this node on its way to a peer.
struct Outgoing {
  SocketId socket{};  // Zero: the broker's own, or the socket is closed.
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint32_t bytes = 0;
  /// Room for a header, then the data; all but the last have kFragmentBytes of data.
  std::vector<Slice> fragments{};
  std::vector<Operation> operations{};    // They come before it.
  std::optional<RemoteMemory> offered{};  // To its receiver.
  bool is_silent = false;                 // It is its operations alone.

  // The connection's.
  std::uint64_t sequence = 0;
  bool has_failed = false;      // One of its operations.
  bool was_sent = false;        // At least one fragment, by an earlier queue pair.
  bool asks_for_ack = false;    // In all its fragments: peers look at the first alone.
  std::uint64_t last_send = 0;  // The number of its last SEND.
};

/// What a program sends.
struct Parcel {
  std::uint32_t bytes = 0;
  std::vector<Slice> fragments{};
  std::vector<Operation> operations{};
  std::optional<RemoteMemory> offered{};
  bool is_silent = false;  // There is no message, only its operations.
};

/// Registered memory for fragments, each of `Header::kSize + kFragmentBytes`.
class Fragments {
 public:
  /// Takes all or none.
  virtual bool take(std::span<Slice> slices) = 0;
  virtual void give_back(std::span<const Slice> slices) = 0;

 protected:
  ~Fragments() = default;
};

}  // namespace verbatim::ulp::rds
