#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "base/types.h"
#include "link/link.h"

/// Datagrams over UDP sockets, segmented and merged by the kernel. Their content is opaque.
namespace verbatim::link {

/// Size of a receive buffer, and of one send call, at most.
inline constexpr std::size_t kMergedBytesMax = 65'536;
inline constexpr std::size_t kSendBytesMax = 65'507;  // UDP over IPv4.
inline constexpr std::size_t kSegmentsMax = 64;       // The kernel's UDP_MAX_SEGMENTS.

/// Returns how many segments of this size one send call can take, at least 1.
constexpr std::size_t segments_max(std::size_t segment_size) {
  const std::size_t fitting = segment_size == 0 ? 1 : kSendBytesMax / segment_size;
  return fitting < 1 ? 1 : (fitting > kSegmentsMax ? kSegmentsMax : fitting);
}

/// A socket for receiving datagrams, bound to one unicast or multicast address.
class UdpSocket {
 public:
  /// Prepares a bound socket (borrowed, from the agent) for receiving: enables merging and enlarges
  /// its buffer. A packet socket (packet(7), SOCK_DGRAM) has no address: `local` is empty.
  static Result<UdpSocket> adopt(int fd);
  /// The same, owned.
  static Result<UdpSocket> adopt(UniqueFd fd);
  /// Opens a socket that is a member of a multicast group (port 4791, or `group.port()` if not 0)
  /// on the interface of `node_address`. Every program of the machine that joins gets each
  /// datagram.
  static Result<UdpSocket> join_multicast(const SocketAddress& group,
                                          const SocketAddress& node_address,
                                          std::uint32_t interface_index);
  UdpSocket(UdpSocket&&) = default;
  UdpSocket& operator=(UdpSocket&&) = default;

  int fd() const { return fd_; }
  bool has_frames() const { return local_.empty(); }  // It is a packet socket.
  /// The address to which it is bound: the destination of all its datagrams.
  const SocketAddress& local() const { return local_; }
  /// Size of the receive buffer that the kernel granted (with the kernel's own overhead).
  std::size_t receive_buffer_bytes() const { return receive_buffer_bytes_; }
  bool merges() const { return merges_; }

 private:
  UdpSocket() = default;
  void prepare();
  UniqueFd owned_;
  int fd_ = -1;
  SocketAddress local_;
  std::size_t receive_buffer_bytes_ = 0;
  bool merges_ = false;
};

/// Datagrams of one sender that the kernel merged: all `segment_size` long, the last may be
/// shorter. For frames, whose addresses are in their GRH, `source` and `destination` are empty.
struct ReceivedDatagrams {
  const SocketAddress& source;
  const SocketAddress& destination;
  std::size_t segment_size;  // bytes.size() for a single datagram.
  MutableByteSpan bytes;     // Valid during the callback.
};

/// Receive buffers, reused by each call. One receiver serves many sockets; one thread at a time.
class UdpReceiver {
 public:
  static constexpr std::size_t kBuffers = 8;
  UdpReceiver();
  ~UdpReceiver();
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;

  /// Receives at most kBuffers merged datagrams without blocking, and calls `on_datagrams(const
  /// ReceivedDatagrams&)` for each. Returns their number; 0: none had arrived.
  template <typename Callback>
  std::size_t receive(const UdpSocket& socket, Callback&& on_datagrams) {
    const std::size_t count = fill(socket);
    for (std::size_t i = 0; i < count; ++i) {
      if (lengths_[i] == 0) continue;  // An empty datagram, or one of an unknown family.
      on_datagrams(ReceivedDatagrams{sources_[i], socket.local(), segment_sizes_[i],
                                     MutableByteSpan(buffer(i), lengths_[i])});
    }
    return count;
  }

 private:
  std::byte* buffer(std::size_t i) { return buffers_.get() + i * kMergedBytesMax; }
  std::size_t fill(const UdpSocket& socket);

  struct Messages;
  std::unique_ptr<std::byte[]> buffers_;
  std::unique_ptr<Messages> messages_;
  std::array<SocketAddress, kBuffers> sources_;
  std::array<std::size_t, kBuffers> segment_sizes_{};
  std::array<std::size_t, kBuffers> lengths_{};
};

/// What a path's GRH says of the IP header (IBA annex A17). A socket sends with one set of them, so
/// that a packet costs nothing more.
struct IpFields {
  std::uint8_t traffic_class = 0;  // IPv4: TOS.
  std::uint8_t hop_limit = 64;     // IPv4: time to live.
  std::uint32_t flow_label = 0;    // IPv6 only, 20 bits; 0: none, nor one of the kernel's.
  friend bool operator==(const IpFields&, const IpFields&) = default;
};

/// A socket for sending, with its own source port. Thread-safe: the kernel locks.
class SendSocket final : public NextHop {
 public:
  /// Sends `bytes` as datagrams of `segment_size` each (the last may be shorter; 0 or at least the
  /// total: one datagram). At most kSendBytesMax in kSegmentsMax segments, else EMSGSIZE. Returns 0
  /// or an errno value: EMSGSIZE (the interface's MTU is too small: fragments are forbidden),
  /// EAGAIN and ENOBUFS (no room within some milliseconds: the datagrams count as lost),
  /// ENETUNREACH...
  int send(const SocketAddress& destination, std::span<const iovec> bytes,
           std::size_t segment_size) const noexcept;
  /// The same for bytes in one piece.
  int send(const SocketAddress& destination, ByteSpan bytes,
           std::size_t segment_size) const noexcept;

 private:
  friend class UdpSender;
  SendSocket(UniqueFd fd, const SocketAddress& local) : fd_(std::move(fd)) { local_ = local; }
  void lease_flow_label(const SocketAddress& destination, std::uint32_t flow_label);
  int send_to(const SocketAddress& destination, std::span<const iovec> bytes,
              std::size_t segment_size) const noexcept;
  int send_message(const msghdr& message) const noexcept;
  int tell_too_large(const msghdr& message) const noexcept;
  int send_segmented(const SocketAddress& destination, std::span<const iovec> bytes,
                     std::size_t segment_size) const noexcept;
  int send_one_by_one(const SocketAddress& destination, std::span<const iovec> bytes,
                      std::size_t segment_size) const noexcept;

  const UniqueFd fd_;
  std::uint32_t flow_label_ = 0;  // Of each datagram; the kernel has leased it to this socket.
  /// False after the kernel has refused segmentation on this socket. Relaxed: a hint.
  mutable std::atomic<bool> segments_{true};
  mutable std::atomic<bool> has_told_{false};  // A too large datagram was reported.
};

/// The send sockets of one node address. A receiver merges datagrams by port pair and steers the
/// merged one as a whole, so each destination program gets a separate source port.
class UdpSender {
 public:
  /// `local`: the node's address; its port is ignored.
  UdpSender(const SocketAddress& local, std::uint32_t interface_index,
            std::size_t sockets_max = 64);

  /// Returns the socket for packets to the program that owns `destination_qpn` at `destination`,
  /// with these fields in their IP headers. Takes a lock and may open a socket: call it when a
  /// queue pair learns its peer, and keep the pointer, which is valid as long as this object. If
  /// all sockets are in use, programs with the same fields share them; if kFieldsMax other
  /// sets are in use, too, whatever their flow label, else ENOBUFS.
  Result<SendSocket*> socket_for(const SocketAddress& destination, Qpn destination_qpn,
                                 const IpFields& fields = {});
  const SocketAddress& local() const { return local_; }

 private:
  struct Program {
    SocketAddress destination;
    std::uint32_t slot;
    IpFields fields;
    friend bool operator==(const Program&, const Program&) = default;
  };
  /// `is_new`: the socket is the first one to this destination.
  Result<SendSocket*> find_or_open(const Program& program, bool& is_new);
  Result<std::unique_ptr<SendSocket>> open(const Program& program) const;
  SendSocket* shared(const Program& program, bool any_label) const;

  static constexpr std::size_t kFieldsMax = 256;  // Sockets beyond `sockets_max`.

  SocketAddress local_;
  std::uint32_t interface_index_ = 0;
  std::size_t sockets_max_ = 0;
  std::mutex mutex_;  // Protects the members below (a socket itself needs no lock).
  /// The first `sockets_max_` programs, and one of each set of fields beyond; each owns the socket
  /// at the same index.
  std::vector<Program> programs_;
  std::vector<std::unique_ptr<SendSocket>> sockets_;
};

}  // namespace verbatim::link
