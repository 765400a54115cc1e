#include "link/udp/udp.h"

#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>

namespace verbatim::link {
namespace {

SocketAddress address(std::string_view text, std::uint16_t port = 0) {
  return SocketAddress::parse(text, port).value();
}

constexpr int kNoCheck6Send = 101;  // UDP_NO_CHECK6_TX of linux/udp.h.

std::uint32_t loopback_index() { return if_nametoindex("lo"); }

struct Received {
  SocketAddress source;
  SocketAddress destination;
  std::size_t segment_size;
  std::vector<std::byte> bytes;
};

/// A receiving socket on a loopback address, with a unique port.
class Bench {
 public:
  explicit Bench(std::string_view ip = "127.77.0.1") {
    const SocketAddress any_port = address(ip);
    fd_.reset(socket(any_port.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd_.get(), any_port.data(), any_port.size()), 0);
    socket_ = std::make_unique<UdpSocket>(UdpSocket::adopt(fd_.get()).value());
  }
  explicit Bench(UdpSocket socket) : socket_(std::make_unique<UdpSocket>(std::move(socket))) {}

  const SocketAddress& local() const { return socket_->local(); }
  const UdpSocket& socket_in_use() const { return *socket_; }

  /// Receives until `bytes` have arrived, or no more arrives.
  std::vector<Received> receive(std::size_t bytes) {
    std::vector<Received> received;
    std::size_t total = 0;
    pollfd waiting{socket_->fd(), POLLIN, 0};
    while (total < bytes && poll(&waiting, 1, 1000) == 1) {
      receiver_.receive(*socket_, [&](const ReceivedDatagrams& datagrams) {
        total += datagrams.bytes.size();
        received.push_back({datagrams.source,
                            datagrams.destination,
                            datagrams.segment_size,
                            {datagrams.bytes.begin(), datagrams.bytes.end()}});
      });
    }
    return received;
  }
  bool quiet() {
    return receiver_.receive(*socket_, [](const ReceivedDatagrams&) {}) == 0;
  }

 private:
  UniqueFd fd_;
  std::unique_ptr<UdpSocket> socket_;
  UdpReceiver receiver_;
};

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

std::vector<std::byte> joined(const std::vector<Received>& received) {
  std::vector<std::byte> bytes;
  for (const auto& part : received) bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  return bytes;
}

TEST(Udp, OneDatagramArrivesWithItsAddresses) {
  Bench bench;
  UdpSender sender(address("127.77.0.2"), loopback_index());
  const auto* socket = sender.socket_for(bench.local(), Qpn(0x4001)).value();
  ASSERT_EQ(socket->send(bench.local(), pattern(100), 0), 0);
  const auto received = bench.receive(100);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].source, socket->local());
  EXPECT_TRUE(same_ip(received[0].source, address("127.77.0.2")));
  EXPECT_EQ(received[0].destination, bench.local());
  EXPECT_EQ(received[0].segment_size, 100u);
  EXPECT_EQ(received[0].bytes, pattern(100));
}

TEST(Udp, SegmentsComeMergedAndTheLastIsShorter) {
  Bench bench;
  UdpSender sender(address("127.77.0.2"), loopback_index());
  const auto* socket = sender.socket_for(bench.local(), Qpn(0x4001)).value();
  const auto bytes = pattern(15 * 4112 + 50);
  ASSERT_EQ(socket->send(bench.local(), bytes, 4112), 0);
  const auto received = bench.receive(bytes.size());
  EXPECT_EQ(joined(received), bytes);
  ASSERT_TRUE(bench.socket_in_use().merges());
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].segment_size, 4112u);
}

TEST(Udp, PiecesOfMemoryAreGathered) {
  Bench bench;
  UdpSender sender(address("127.77.0.2"), loopback_index());
  const auto* socket = sender.socket_for(bench.local(), Qpn(0x4001)).value();
  auto bytes = pattern(3000);
  const std::array<iovec, 3> pieces{iovec{bytes.data(), 700}, iovec{bytes.data() + 700, 0},
                                    iovec{bytes.data() + 700, 2300}};
  ASSERT_EQ(socket->send(bench.local(), pieces, 1000), 0);
  EXPECT_EQ(joined(bench.receive(3000)), bytes);
}

/// Finds the descriptor of a send socket by its port, because the class does not show it.
int descriptor_of(const SendSocket& socket) {
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    auto* name = reinterpret_cast<sockaddr*>(&storage);
    if (getsockname(fd, name, &length) != 0) continue;
    const auto local = SocketAddress::from(name, length);
    if (local && *local == socket.local()) return fd;
  }
  return -1;
}

TEST(Udp, WhereTheKernelDoesNotSegmentEachGoesAlone) {
  Bench bench;
  UdpSender sender(address("127.77.0.2"), loopback_index());
  const auto* socket = sender.socket_for(bench.local(), Qpn(0x4001)).value();
  // The kernel refuses to segment without checksums (EINVAL).
  const int on = 1;
  ASSERT_EQ(setsockopt(descriptor_of(*socket), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
  auto bytes = pattern(2500);
  const std::array<iovec, 2> pieces{iovec{bytes.data(), 1100}, iovec{bytes.data() + 1100, 1400}};
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(socket->send(bench.local(), pieces, 1000), 0);
    const auto received = bench.receive(bytes.size());
    EXPECT_EQ(received.size(), 3u);
    EXPECT_EQ(joined(received), bytes);
  }
}

TEST(Udp, TooMuchForOneCallIsRefused) {
  Bench bench;
  UdpSender sender(address("127.77.0.2"), loopback_index());
  const auto* socket = sender.socket_for(bench.local(), Qpn(0x4001)).value();
  EXPECT_EQ(socket->send(bench.local(), pattern(kSendBytesMax + 1), 4096), EMSGSIZE);
  EXPECT_EQ(socket->send(bench.local(), pattern(65 * 100), 100), EMSGSIZE);
  EXPECT_EQ(socket->send(bench.local(), pattern(kSendBytesMax), 0), 0);
  EXPECT_EQ(joined(bench.receive(kSendBytesMax)), pattern(kSendBytesMax));
}

TEST(Udp, IPv6WithoutAChecksumIsTaken) {
  Bench bench("::1");
  UdpSender sender(address("::1"), loopback_index());
  const auto* socket = sender.socket_for(bench.local(), Qpn(0x4001)).value();
  const int on = 1;
  ASSERT_EQ(setsockopt(descriptor_of(*socket), IPPROTO_UDP, kNoCheck6Send, &on, sizeof on), 0);
  ASSERT_EQ(socket->send(bench.local(), pattern(100), 0), 0);
  EXPECT_EQ(joined(bench.receive(100)), pattern(100));
}

TEST(Udp, SegmentsMaxKeepsBothLimits) {
  EXPECT_EQ(segments_max(4112), 15u);
  EXPECT_EQ(segments_max(100), 64u);
  EXPECT_EQ(segments_max(100'000), 1u);
}

TEST(Udp, EachDestinationProgramHasASourcePort) {
  UdpSender sender(address("127.77.0.2"), loopback_index(), 3);
  const auto a = address("127.77.0.3", kRocePort);
  const auto b = address("127.77.0.4", kRocePort);
  const auto* a1 = sender.socket_for(a, Qpn(1 << 14 | 5)).value();
  const auto* a2 = sender.socket_for(a, Qpn(2 << 14 | 5)).value();
  const auto* b1 = sender.socket_for(b, Qpn(1 << 14 | 5)).value();
  EXPECT_NE(a1->local().port(), a2->local().port());
  EXPECT_NE(a1->local().port(), b1->local().port());
  EXPECT_EQ(sender.socket_for(a, Qpn(1 << 14 | 6)).value(), a1);
}

TEST(Udp, AFullPoolIsSharedAndStable) {
  UdpSender sender(address("127.77.0.2"), loopback_index(), 2);
  const auto peer = address("127.77.0.3", kRocePort);
  const auto* first = sender.socket_for(peer, Qpn(1 << 14)).value();
  const auto* second = sender.socket_for(peer, Qpn(2 << 14)).value();
  const auto* third = sender.socket_for(peer, Qpn(3 << 14)).value();
  EXPECT_TRUE(third == first || third == second);
  EXPECT_EQ(sender.socket_for(peer, Qpn(3 << 14)).value(), third);
  EXPECT_EQ(sender.socket_for(peer, Qpn(1 << 14)).value(), first);
}

TEST(Udp, AnAddressOfAnotherMachineIsRefused) {
  UdpSender sender(address("198.51.100.1"), loopback_index());
  const auto socket = sender.socket_for(address("127.77.0.3").with_port(kRocePort), Qpn(1));
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().code, EADDRNOTAVAIL);
}

TEST(Udp, ReceiveBufferIsLargerThanTheKernelsOwn) {
  UniqueFd plain(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  int usual = 0;
  socklen_t length = sizeof usual;
  ASSERT_EQ(getsockopt(plain.get(), SOL_SOCKET, SO_RCVBUF, &usual, &length), 0);
  Bench bench;
  EXPECT_GE(bench.socket_in_use().receive_buffer_bytes(), static_cast<std::size_t>(usual));
}

void expect_that_every_member_gets_each_datagram(const SocketAddress& group,
                                                 const SocketAddress& node_1,
                                                 const SocketAddress& node_2,
                                                 std::uint32_t interface_index) {
  auto socket_1 = UdpSocket::join_multicast(group, node_1, interface_index);
  ASSERT_TRUE(socket_1) << socket_1.error().text;
  auto socket_2 = UdpSocket::join_multicast(group, node_2, interface_index);
  ASSERT_TRUE(socket_2) << socket_2.error().text;
  Bench first(std::move(*socket_1)), second(std::move(*socket_2));

  UdpSender sender(node_1, interface_index);
  const auto* socket = sender.socket_for(group, kMulticastQpn).value();
  ASSERT_EQ(socket->send(group, pattern(512), 0), 0);
  for (Bench* member : {&first, &second}) {
    const auto received = member->receive(512);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_EQ(received[0].bytes, pattern(512));
    EXPECT_TRUE(same_ip(received[0].source, node_1));
    EXPECT_TRUE(same_ip(received[0].destination, group));
    EXPECT_TRUE(member->quiet());
  }
}

TEST(UdpMulticast, NodesOnLoopbackShareAnIPv4Group) {
  expect_that_every_member_gets_each_datagram(address("239.77.1.2", kRocePort),
                                              address("127.77.0.2"), address("127.77.0.3"),
                                              loopback_index());
}

/// Returns the link-local IPv6 address of a multicast interface that is up, if there is one.
SocketAddress link_local_address() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  SocketAddress found;
  for (const ifaddrs* entry = list; entry != nullptr && found.empty(); entry = entry->ifa_next) {
    constexpr unsigned kNeeded = IFF_UP | IFF_RUNNING | IFF_MULTICAST;
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET6 ||
        (entry->ifa_flags & kNeeded) != kNeeded) {
      continue;
    }
    const auto candidate = SocketAddress::from(entry->ifa_addr, sizeof(sockaddr_in6)).value();
    if (candidate.is_link_local()) found = candidate;
  }
  freeifaddrs(list);
  return found;
}

// The loopback interface has no route for IPv6 groups, so this test uses another one.
TEST(UdpMulticast, ProgramsOnAnInterfaceShareAnIPv6Group) {
  const SocketAddress node = link_local_address();
  if (node.empty()) GTEST_SKIP() << "no interface with a link-local IPv6 address and multicast";
  const auto group =
      SocketAddress::ipv6(address("ff12::77:1").ipv6_bytes(), kRocePort, node.scope_id());
  expect_that_every_member_gets_each_datagram(group, node, node, node.scope_id());
}

TEST(UdpMulticast, JoiningWhatIsNoGroupIsRefused) {
  const auto socket =
      UdpSocket::join_multicast(address("127.77.0.9"), address("127.77.0.1"), loopback_index());
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().code, EINVAL);
}

/// What is said of a way from `local` to `destination`.
std::string said_of(const SocketAddress& local, const SocketAddress& destination) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(UdpSender(local, loopback_index()).socket_for(destination, Qpn(1)));
  return testing::internal::GetCapturedStderr();
}

TEST(UdpSender, SaysThatALoopbackAddressLeadsToNoOtherMachine) {
  const Bench peer;
  const SocketAddress own = address("127.77.0.9");
  EXPECT_EQ(said_of(own, peer.local()), "");
  EXPECT_NE(said_of(own, address("127.77.0.8", kRocePort)).find("no node of this machine has"),
            std::string::npos);
  EXPECT_NE(said_of(own, address("192.0.2.1", kRocePort)).find("is on another machine"),
            std::string::npos);
}

}  // namespace
}  // namespace verbatim::link
