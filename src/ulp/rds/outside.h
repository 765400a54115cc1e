#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/net/address.h"
#include "ulp/engine/meeting.h"
#include "ulp/engine/work.h"
#include "ulp/rds/operation.h"
#include "ulp/rds/ports.h"
#include "ulp/rds/wire/header.h"

namespace verbatim::ulp::rds {

/// A queue pair with a peer, or the attempt to make one.
enum class LinkId : std::uint32_t {};

/// Whom a connection joins: addresses without ports. Each type of service has its own.
struct Pair {
  SocketAddress own;
  SocketAddress peer;
  std::uint8_t tos = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};
struct HashOfPair {
  std::size_t operator()(const Pair& pair) const noexcept {
    const std::hash<SocketAddress> hash;
    return hash(pair.own) * 31 + hash(pair.peer) + pair.tos;
  }
};

/// What a program is told of an operation, instead of a message.
struct Notice {
  std::uint64_t token = 0;
  OperationStatus status{};
};

/// A message for a program.
struct Delivery {
  SocketAddress from;
  std::uint32_t bytes = 0;
  std::span<const ByteSpan> pieces{};
  std::optional<RemoteMemory> offered{};
  std::optional<MemoryKey> used{};
  std::optional<Notice> notice{};
};

/// What the broker asks of the process around it. Nothing here calls the broker.
class Outside {
 public:
  /// Returns false if the program's socket has no room: `Broker::on_room` is called when it has.
  virtual bool deliver(SocketId socket, const Delivery& delivery) = 0;
  /// A message of the socket has come to its end: it is acknowledged, delivered here, or dropped.
  virtual void on_finished(SocketId socket) = 0;
  /// An operation is over. After a READ that has succeeded, its bytes go to the program.
  virtual void on_operation(SocketId socket, const Operation& operation,
                            OperationStatus status) = 0;
  /// The peer has used memory that the socket's program has granted.
  virtual void on_used(SocketId socket, MemoryKey key) = 0;
  /// Ports are congested no more: bit p % 64 for port p.
  virtual void tell_congestion(SocketId socket, std::uint64_t ports) = 0;
  /// The program that has asked by `Broker::may_send` may send now.
  virtual void let_send(std::uint64_t waiter) = 0;
  /// Whether messages of the program are taken.
  virtual void pause(SocketId socket, bool is_paused) = 0;
  /// Whether any port is congested: programs ask before they send.
  virtual void show_congestion(bool is_any) = 0;

  virtual bool is_own(const SocketAddress& address) = 0;
  virtual Result<LinkId> connect(const Pair& pair, const PrivateData& data) = 0;
  virtual void accept(LinkId link, const PrivateData& data) = 0;
  virtual void reject(LinkId link, const PrivateData& data) = 0;
  virtual void disconnect(LinkId link, const char* words) = 0;
  virtual void carry_out(LinkId link, std::span<const Work> work) = 0;
  virtual void carry_out(LinkId link, const Atomic& atomic) = 0;

 protected:
  ~Outside() = default;
};

}  // namespace verbatim::ulp::rds
