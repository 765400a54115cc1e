#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <linux/in6.h>
#include <net/if.h>
#include <poll.h>

#include "link/udp/udp.h"

/// The fields of a path's GRH in the IP headers of its datagrams, as the kernel shows them to a
/// receiver (IBA annex A17).
namespace verbatim::link {
namespace {

SocketAddress address(std::string_view text) { return SocketAddress::parse(text).value(); }

/// A socket that asks the kernel for the headers of what it receives.
class Judge {
 public:
  explicit Judge(std::string_view ip) {
    const SocketAddress any_port = address(ip);
    fd_.reset(socket(any_port.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd_.get(), any_port.data(), any_port.size()), 0);
    const int on = 1;
    for (const auto& [level, name] : {std::pair{IPPROTO_IP, IP_RECVTOS},
                                      {IPPROTO_IP, IP_RECVTTL},
                                      {IPPROTO_IPV6, IPV6_RECVTCLASS},
                                      {IPPROTO_IPV6, IPV6_RECVHOPLIMIT},
                                      {IPPROTO_IPV6, IPV6_FLOWINFO}}) {
      setsockopt(fd_.get(), level, name, &on, sizeof on);
    }
    local_ = SocketAddress::of_socket(fd_.get()).value();
  }
  const SocketAddress& local() const { return local_; }

  /// Of the next datagram.
  IpFields next() {
    pollfd waiting{fd_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 5000), 1);
    std::array<std::byte, 256> bytes;
    std::array<std::byte, 512> control;
    iovec piece{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    EXPECT_GT(recvmsg(fd_.get(), &message, 0), 0);
    IpFields fields{.hop_limit = 0};
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
      read(*one, fields);
    }
    return fields;
  }

 private:
  static void read(cmsghdr& one, IpFields& fields) {
    if (one.cmsg_level == IPPROTO_IP && one.cmsg_type == IP_TOS) {
      fields.traffic_class = *CMSG_DATA(&one);
      return;
    }
    std::uint32_t value = 0;
    std::memcpy(&value, CMSG_DATA(&one), sizeof value);
    if (one.cmsg_level == IPPROTO_IP && one.cmsg_type == IP_TTL) {
      fields.hop_limit = static_cast<std::uint8_t>(value);
    }
    if (one.cmsg_level != IPPROTO_IPV6) return;
    if (one.cmsg_type == IPV6_TCLASS) fields.traffic_class = static_cast<std::uint8_t>(value);
    if (one.cmsg_type == IPV6_HOPLIMIT) fields.hop_limit = static_cast<std::uint8_t>(value);
    if (one.cmsg_type == IPV6_FLOWINFO) fields.flow_label = ntohl(value) & 0xfffff;
  }

  UniqueFd fd_;
  SocketAddress local_;
};

/// Sends two datagrams of one call with these fields, and returns those of the last.
IpFields arrived(UdpSender& sender, Judge& judge, const IpFields& fields) {
  const auto socket = sender.socket_for(judge.local(), Qpn(0x4001), fields);
  EXPECT_TRUE(socket) << socket.error().text;
  const std::vector<std::byte> bytes(200);
  EXPECT_EQ((*socket)->send(judge.local(), bytes, 100), 0);
  judge.next();
  return judge.next();
}

TEST(UdpFields, OfIpv4) {
  Judge judge("127.77.0.3");
  UdpSender sender(address("127.77.0.4"), if_nametoindex("lo"));
  for (const IpFields& fields : {IpFields{},
                                 {.traffic_class = 0x68},
                                 {.traffic_class = 0xff, .hop_limit = 255},
                                 {.traffic_class = 0x02, .hop_limit = 2}}) {
    EXPECT_EQ(arrived(sender, judge, fields), fields);
  }
  EXPECT_EQ(arrived(sender, judge, {.flow_label = 7}), IpFields{}) << "IPv4 has none";
}

TEST(UdpFields, OfIpv6) {
  Judge judge("::1");
  UdpSender sender(address("::1"), if_nametoindex("lo"));
  for (const IpFields& fields :
       {IpFields{},
        {.traffic_class = 0x68, .hop_limit = 9},
        {.flow_label = 0xabcde},
        {.traffic_class = 0xff, .hop_limit = 255, .flow_label = 0xfffff}}) {
    EXPECT_EQ(arrived(sender, judge, fields), fields);
  }
}

TEST(UdpFields, SocketsAreSharedOnlyWithTheSameFields) {
  Judge judge("127.77.0.3");
  UdpSender sender(address("127.77.0.4"), if_nametoindex("lo"), 1);
  const auto socket = [&](std::uint32_t qpn, const IpFields& fields) {
    return sender.socket_for(judge.local(), Qpn(qpn), fields).value();
  };
  SendSocket* const plain = socket(0x4001, {});
  EXPECT_EQ(socket(0x8001, {}), plain);
  SendSocket* const marked = socket(0x8001, {.traffic_class = 4});
  EXPECT_NE(marked, plain);
  EXPECT_EQ(socket(0xc001, {.traffic_class = 4}), marked);
  for (unsigned hops = 2; hops < 256; ++hops) {
    socket(0x4001, {.traffic_class = 8, .hop_limit = static_cast<std::uint8_t>(hops)});
  }
  EXPECT_EQ(
      sender.socket_for(judge.local(), Qpn(0x4001), {.traffic_class = 12, .hop_limit = 1}).value(),
      socket(0x4001, {.traffic_class = 12, .hop_limit = 1}));
  EXPECT_EQ(sender.socket_for(judge.local(), Qpn(0x4001), {.traffic_class = 16}).error().code,
            ENOBUFS)
      << "bounded";
}

}  // namespace
}  // namespace verbatim::link
