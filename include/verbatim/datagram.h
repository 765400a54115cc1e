#pragma once

#include <memory>

#include <verbatim/queue_pair.h>

namespace verbatim::inline v1 {

/// Address of a UD queue pair: send it to those who should send datagrams there.
struct DatagramAddress {
  Gid gid;
  std::uint16_t lid = 0;  ///< InfiniBand; 0 over RoCE.
  std::uint32_t queue_pair = 0;
  std::uint32_t key = 0;  ///< Q_Key, which the receiver checks.
};

namespace detail {
struct DatagramState;
struct AddressHandle;
}  // namespace detail

/// A resolved destination. Copies share it.
class Destination {
 private:
  friend class DatagramQueuePair;
  std::shared_ptr<detail::AddressHandle> handle_;
  DatagramAddress address_;
};

/// An unreliable datagram queue pair (UD). A message is one packet: at most `max_message` bytes; it
/// may be lost.
class DatagramQueuePair {
 public:
  /// Adapters put the sender's route (GRH) before each message, or leave the bytes unused; the
  /// receive needs the room either way.
  static constexpr std::uint32_t kHeaderBytes = 40;

  static Result<DatagramQueuePair> make(const ProtectionDomain& domain,
                                        const QueuePairOptions& options = {},
                                        std::uint32_t key = 0x11111111);

  DatagramAddress address() const noexcept;
  std::uint32_t max_message() const noexcept;
  Result<Destination> resolve(const DatagramAddress& address);

  RequestToken send(Slice from VERBATIM_LIFETIME_BOUND, const Destination& to, Flags flags = {});
  RequestToken send(Slice from VERBATIM_LIFETIME_BOUND, const Destination& to, Immediate immediate,
                    Flags flags = {});
  /// `into` has room for `kHeaderBytes` and the message; the completion counts only the message.
  RequestToken receive(Slice into VERBATIM_LIFETIME_BOUND);

  CompletionQueue completions() const;
  std::uint32_t number() const noexcept;
  ibv_qp* native() const noexcept;

  DatagramQueuePair(DatagramQueuePair&&) noexcept;
  DatagramQueuePair& operator=(DatagramQueuePair&&) noexcept;
  ~DatagramQueuePair();

 private:
  RequestToken post(Slice from, const Destination& to, Operation operation, Immediate immediate,
                    Flags flags);
  explicit DatagramQueuePair(std::unique_ptr<detail::DatagramState> state);
  std::unique_ptr<detail::DatagramState> state_;
};

}  // namespace verbatim::inline v1
