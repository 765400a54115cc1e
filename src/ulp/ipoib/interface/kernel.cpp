#include "ulp/ipoib/interface/kernel.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/log.h"

namespace verbatim::ulp::ipoib {
namespace {

constexpr std::size_t kAnswerBytes = 32 << 10;

/// A question: header, body, and attributes with an address or a number.
class Question {
 public:
  template <typename Body>
  Question(std::uint16_t type, std::uint16_t flags, const Body& body, std::uint32_t sequence)
      : header_{.nlmsg_len = NLMSG_LENGTH(sizeof(Body)),
                .nlmsg_type = type,
                .nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST),
                .nlmsg_seq = sequence,
                .nlmsg_pid = 0} {
    std::memcpy(&bytes_[NLMSG_HDRLEN], &body, sizeof body);
  }
  void add(std::uint16_t type, const void* data, std::size_t bytes) {
    const rtattr attribute{static_cast<std::uint16_t>(RTA_LENGTH(bytes)), type};
    std::byte* const at = &bytes_[header_.nlmsg_len];
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), data, bytes);
    header_.nlmsg_len += static_cast<std::uint32_t>(RTA_SPACE(bytes));
  }
  void add(std::uint16_t type, const SocketAddress& ip) {
    if (ip.is_ipv4()) return add(type, ip.ipv4_bytes().data(), 4);
    add(type, ip.ipv6_bytes().data(), 16);
  }
  ByteSpan bytes() {
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    return ByteSpan(bytes_).first(header_.nlmsg_len);
  }

 private:
  nlmsghdr header_;
  std::array<std::byte, 256> bytes_{};
};

SocketAddress address_in(const rtattr* attribute, std::uint8_t family) {
  const void* const data = RTA_DATA(attribute);
  if (family == AF_INET && RTA_PAYLOAD(attribute) == 4) {
    std::array<std::uint8_t, 4> bytes;
    std::memcpy(bytes.data(), data, bytes.size());
    return SocketAddress::ipv4(bytes);
  }
  if (family == AF_INET6 && RTA_PAYLOAD(attribute) == 16) {
    std::array<std::uint8_t, 16> bytes;
    std::memcpy(bytes.data(), data, bytes.size());
    return SocketAddress::ipv6(bytes);
  }
  return {};
}

/// Calls `visit(const rtattr*)` for each attribute behind the body.
template <typename Body, typename Visit>
void for_each_attribute(const nlmsghdr& message, Visit visit) {
  const auto* const body = static_cast<const Body*>(NLMSG_DATA(&message));
  auto left = static_cast<int>(message.nlmsg_len) - static_cast<int>(NLMSG_SPACE(sizeof(Body)));
  const auto* at = reinterpret_cast<const rtattr*>(reinterpret_cast<const char*>(body) +
                                                   NLMSG_ALIGN(sizeof(Body)));
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) visit(at);
}

template <typename Body>
const Body* body_of(const nlmsghdr& message) {
  if (message.nlmsg_len < NLMSG_LENGTH(sizeof(Body))) return nullptr;
  return static_cast<const Body*>(NLMSG_DATA(&message));
}

}  // namespace

Kernel::Kernel(int interface_index, UniqueFd questions, UniqueFd changes)
    : index_(interface_index),
      questions_(std::move(questions)),
      changes_(std::move(changes)),
      buffer_(kAnswerBytes) {
  const timeval patience{1, 0};  // It answers at once; but never wait for ever.
  setsockopt(questions_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

bool Kernel::ask(ByteSpan question) {
  return send(questions_.get(), question.data(), question.size(), 0) >= 0;
}

template <typename Visit>
bool Kernel::take_answer(Visit visit) {
  for (;;) {
    const auto got = recv(questions_.get(), buffer_.data(), buffer_.size(), 0);
    if (got <= 0) return false;
    auto left = static_cast<unsigned>(got);
    for (auto* at = reinterpret_cast<const nlmsghdr*>(buffer_.data()); NLMSG_OK(at, left);
         at = NLMSG_NEXT(at, left)) {
      if (at->nlmsg_seq != sequence_) continue;
      if (at->nlmsg_type == NLMSG_DONE) return true;
      if (at->nlmsg_type == NLMSG_ERROR) return false;
      visit(*at);
      if ((at->nlmsg_flags & NLM_F_MULTI) == 0) return true;
    }
  }
}

/// Asked by an interface, the kernel takes an address that no route leads to for a neighbour there.
NextHop Kernel::next_hop(const SocketAddress& destination, bool is_by_this) {
  const std::uint8_t family = destination.is_ipv4() ? AF_INET : AF_INET6;
  Question question(
      RTM_GETROUTE, 0,
      rtmsg{.rtm_family = family,
            .rtm_dst_len = destination.is_ipv4() ? std::uint8_t{32} : std::uint8_t{128}},
      ++sequence_);
  question.add(RTA_DST, destination);
  if (is_by_this) question.add(RTA_OIF, &index_, sizeof index_);
  NextHop next;
  int by = 0;
  const auto take = [&](const nlmsghdr& message) {
    const auto* const route = body_of<rtmsg>(message);
    if (message.nlmsg_type != RTM_NEWROUTE || route == nullptr) return;
    if (route->rtm_type == RTN_BROADCAST) next.kind = NextHop::Kind::broadcast;
    if (route->rtm_type != RTN_UNICAST) return;
    next.kind = NextHop::Kind::neighbour;
    next.hop = destination;
    for_each_attribute<rtmsg>(message, [&](const rtattr* attribute) {
      if (attribute->rta_type == RTA_OIF) std::memcpy(&by, RTA_DATA(attribute), sizeof by);
      if (attribute->rta_type == RTA_GATEWAY) next.hop = address_in(attribute, family);
      if (attribute->rta_type == RTA_PREFSRC) next.source = address_in(attribute, family);
      if (attribute->rta_type != RTA_VIA) return;  // An IPv4 route by an IPv6 router (RFC 5549).
      std::uint16_t via_family = 0;
      std::memcpy(&via_family, RTA_DATA(attribute), sizeof via_family);
      std::array<std::uint8_t, 16> bytes{};
      if (via_family != AF_INET6 || RTA_PAYLOAD(attribute) < 18) return;
      std::memcpy(bytes.data(), static_cast<const char*>(RTA_DATA(attribute)) + 2, bytes.size());
      next.hop = SocketAddress::ipv6(bytes);
      next.source = {};
    });
  };
  if (!ask(question.bytes()) || !take_answer(take) || by != index_) return {};
  if (next.hop.empty() && next.kind == NextHop::Kind::neighbour) return {};
  return next;
}

std::vector<SocketAddress> Kernel::addresses() {
  Question question(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{}, ++sequence_);
  std::vector<SocketAddress> found;
  const auto take = [&](const nlmsghdr& message) {
    const auto* const address = body_of<ifaddrmsg>(message);
    if (message.nlmsg_type != RTM_NEWADDR || address == nullptr) return;
    if (address->ifa_index != static_cast<std::uint32_t>(index_)) return;
    SocketAddress local, peer;
    for_each_attribute<ifaddrmsg>(message, [&](const rtattr* attribute) {
      if (attribute->rta_type == IFA_LOCAL) local = address_in(attribute, address->ifa_family);
      if (attribute->rta_type == IFA_ADDRESS) peer = address_in(attribute, address->ifa_family);
    });
    if (const auto& own = local.empty() ? peer : local; !own.empty()) found.push_back(own);
  };
  if (ask(question.bytes())) take_answer(take);
  return found;
}

void Kernel::add_address(const SocketAddress& ipv6) {
  constexpr std::uint8_t kPrefix = 64;
  Question question(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK,
                    ifaddrmsg{.ifa_family = AF_INET6,
                              .ifa_prefixlen = kPrefix,
                              .ifa_flags = IFA_F_NODAD | IFA_F_PERMANENT,
                              .ifa_scope = RT_SCOPE_LINK,
                              .ifa_index = static_cast<std::uint32_t>(index_)},
                    ++sequence_);
  question.add(IFA_LOCAL, ipv6);
  if (ask(question.bytes())) take_answer([](const nlmsghdr&) {});
}

void Kernel::set_queue_length(std::uint32_t packets) {
  Question question(RTM_NEWLINK, NLM_F_ACK, ifinfomsg{.ifi_index = index_}, ++sequence_);
  question.add(IFLA_TXQLEN, &packets, sizeof packets);
  if (ask(question.bytes())) take_answer([](const nlmsghdr&) {});
}

void Kernel::limit_groups(std::uint32_t mtu) {
  constexpr std::uint32_t kIpv4Metric = 1 << 20;  // Whoever has routes for groups keeps them.
  constexpr std::uint32_t kIpv6Metric = 255;      // Before the kernel's own of each interface.
  struct Range {
    std::uint8_t family, prefix, table, scope, type;
    SocketAddress address;
    std::uint32_t metric;
  };
  const Range all[] = {{AF_INET, 4, RT_TABLE_MAIN, RT_SCOPE_LINK, RTN_UNICAST,
                        SocketAddress::ipv4({224}), kIpv4Metric},
                       {AF_INET6, 8, RT_TABLE_LOCAL, RT_SCOPE_UNIVERSE, RTN_MULTICAST,
                        SocketAddress::ipv6({0xff}), kIpv6Metric}};
  for (const Range& groups : all) {
    Question question(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK,
                      rtmsg{.rtm_family = groups.family,
                            .rtm_dst_len = groups.prefix,
                            .rtm_table = groups.table,
                            .rtm_protocol = RTPROT_KERNEL,
                            .rtm_scope = groups.scope,
                            .rtm_type = groups.type},
                      ++sequence_);
    struct {
      rtattr attribute{RTA_LENGTH(sizeof(std::uint32_t)), RTAX_MTU};
      std::uint32_t mtu = 0;
    } metrics{.mtu = mtu};
    question.add(RTA_DST, groups.address);
    question.add(RTA_OIF, &index_, sizeof index_);
    question.add(RTA_PRIORITY, &groups.metric, sizeof groups.metric);
    question.add(RTA_METRICS, &metrics, sizeof metrics);
    if (ask(question.bytes())) take_answer([](const nlmsghdr&) {});
  }
}

/// What did not fit into the socket's queue may be anything.
Kernel::Changes Kernel::take_changes() {
  Changes changes;
  for (;;) {
    const auto got = recv(changes_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && errno == ENOBUFS) return {.routes = true, .addresses = true, .link = true};
    if (got <= 0) return changes;
    auto left = static_cast<unsigned>(got);
    for (auto* at = reinterpret_cast<const nlmsghdr*>(buffer_.data()); NLMSG_OK(at, left);
         at = NLMSG_NEXT(at, left)) {
      changes.routes |= at->nlmsg_type == RTM_NEWROUTE || at->nlmsg_type == RTM_DELROUTE;
      changes.addresses |= at->nlmsg_type == RTM_NEWADDR || at->nlmsg_type == RTM_DELADDR;
      changes.link |= at->nlmsg_type == RTM_NEWLINK || at->nlmsg_type == RTM_DELLINK;
    }
  }
}

}  // namespace verbatim::ulp::ipoib
