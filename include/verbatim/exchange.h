#pragma once

#include <verbatim/connection.h>

/// Connections by an exchange over plain TCP instead of rdma_cm: each side sends its address (LID,
/// GID), queue pair number, PSN and MTU. For fabrics without IP addresses, and for programs whose
/// processes have a TCP connection anyway. Not for iWARP, where only rdma_cm connects: fails there
/// with `Status::refused`.
///
/// The message, the same for both sides, big-endian: "VBX1", u16 LID, u8 MTU code (IBA: 1 is 256
/// bytes, 5 is 4096), u8 GID index in use (1) or not (0), GID (16 bytes), u32 queue pair number,
/// u32 first PSN, u8 READs in flight, 3 zero bytes, u32 length of the data, the data. Each side
/// sends it once, and then one byte (1) when its queue pair can receive.
namespace verbatim::inline v1::exchange {

/// Connects over an existing TCP connection, which stays open and belongs to the caller. Blocks, at
/// most for `options.timeout`.
Result<QueuePair> connect_over(const ProtectionDomain& domain, int socket,
                               const ConnectOptions& options = {});

/// Opens the TCP connection, too, and closes it again.
Result<QueuePair> connect(const ProtectionDomain& domain, const std::string& host,
                          std::uint16_t port, const ConnectOptions& options = {});

/// Listens for TCP connections.
class Listener {
 public:
  static Result<Listener> open(const ProtectionDomain& domain, const ListenOptions& options = {});
  Result<QueuePair> accept(const ConnectOptions& options = {},
                           std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});
  std::uint16_t port() const noexcept;
  int event_descriptor() const noexcept;

  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

 private:
  struct State;
  explicit Listener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace verbatim::inline v1::exchange
