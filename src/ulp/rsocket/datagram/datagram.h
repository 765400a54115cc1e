#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/net/address.h"
#include "ulp/rsocket/datagram/datagram_port.h"
#include "ulp/rsocket/socket.h"

namespace verbatim::rsocket {

/// Header before the user's bytes of a datagram that is sent over UDP because the peer's queue pair
/// is unknown, and of the answer that gives our queue pair:
///
///     byte   0-3            4            5    6        7      8-11                12-15 or 12-27
///          +--------------+------------+----+--------+------+-------------------+---------------+
///          | 55 55 55 55  | IP version | op | length | rsvd | queue pair number | our IP address|
///          +--------------+------------+----+--------+------+-------------------+---------------+
inline constexpr std::size_t kUdpHeaderMax = 28;

/// A datagram rsocket: a UDP socket that owns the name and finds peers, and one queue pair per
/// local address, which sends datagrams as soon as the peer's queue pair is known.
class Datagram final : public Socket {
 public:
  static Outcome<std::shared_ptr<Datagram>> make(int domain);
  ~Datagram() override;

  int type() const override { return SOCK_DGRAM; }
  Outcome<void> bind(const sockaddr* address, socklen_t length) override;
  Outcome<void> listen(int) override { return unsupported(kNoConnection); }
  Outcome<Accepted> accept() override { return unsupported(kNoConnection); }
  Outcome<void> connect(const sockaddr* address, socklen_t length) override;
  Outcome<void> shut_down(int how) override;
  void close() override;
  Outcome<std::size_t> send(const Message& message) override;
  Outcome<std::size_t> receive(const Message& message) override;
  short ready(short events) override;
  void arm() override;
  bool armed() override;
  void wake() override;
  short look(short events) override { return ready(events); }
  Outcome<void> name(sockaddr* address, socklen_t* length, bool peer) override;
  Outcome<void> set_option(int level, int option, const void* value, socklen_t length) override;
  Outcome<void> get_option(int level, int option, void* value, socklen_t* length) override;
  Outcome<off_t> map(void*, std::size_t, int, off_t) override { return unsupported(kNoMapping); }
  Outcome<void> unmap(void*, std::size_t) override { return unsupported(kNoMapping); }
  Outcome<std::size_t> write_mapped(const void*, std::size_t, off_t, int) override {
    return unsupported(kNoMapping);
  }

 private:
  static constexpr const char* kNoConnection = "datagram sockets have no connections";
  static constexpr const char* kNoMapping = "datagram sockets have no remote memory";
  struct Peer {
    SocketAddress address;
    DatagramPort* port = nullptr;
    ibv_ah* ah = nullptr;  // Null until the peer's queue pair is known.
    std::uint32_t qpn = 0;
  };
  struct Waiting {
    SocketAddress from;
    std::vector<std::byte> bytes;
  };

  explicit Datagram(Handle handle) : Socket(std::move(handle)) {}
  void process() override;
  void arm_locked() override;
  bool armed_locked() const override;
  void wake_locked(bool surely) override;
  void take_udp();
  void on_udp(ByteSpan bytes, const SocketAddress& from);
  void deliver(const SocketAddress& from, ByteSpan bytes);
  Outcome<SocketAddress> local_for(const SocketAddress& peer);
  Outcome<Peer*> peer_at(const SocketAddress& address);
  Outcome<DatagramPort*> port_at(const SocketAddress& local);
  Outcome<void> send_udp(const Peer& peer, Op op, std::span<const iovec> pieces);

  UniqueFd udp_;
  Sizes sizes_;
  bool shut_ = false;
  std::vector<std::unique_ptr<DatagramPort>> ports_;
  std::deque<Peer> peers_;
  SocketAddress connected_;
  std::deque<Waiting> waiting_;
};

}  // namespace verbatim::rsocket
