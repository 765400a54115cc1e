#include "link/ethernet/neighbour.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <time.h>

#include "base/os/unique_fd.h"
#include "base/time.h"

namespace verbatim::link {
namespace {

constexpr TimeNs kLookAgain = kMillisecond;
constexpr std::uint16_t kDiscardPort = 9;

/// Returns the bytes of the address for rtnetlink: 4 or 16.
std::span<const std::byte> bytes_of(const SocketAddress& address) {
  const auto* const start = reinterpret_cast<const std::byte*>(address.data());
  if (address.is_ipv4()) return {start + offsetof(sockaddr_in, sin_addr), 4};
  return {start + offsetof(sockaddr_in6, sin6_addr), 16};
}

/// A request to the kernel and its answer.
template <typename Body>
class Question {
 public:
  Question(std::uint16_t type, const Body& body) {
    message_.header.nlmsg_len = NLMSG_LENGTH(sizeof(Body));
    message_.header.nlmsg_type = type;
    message_.header.nlmsg_flags = NLM_F_REQUEST;
    message_.body = body;
  }
  void add(std::uint16_t type, std::span<const std::byte> value) {
    const std::size_t at = NLMSG_ALIGN(message_.header.nlmsg_len);
    rtattr attribute{static_cast<std::uint16_t>(RTA_LENGTH(value.size())), type};
    std::memcpy(bytes() + at, &attribute, sizeof attribute);
    std::memcpy(bytes() + at + RTA_LENGTH(0), value.data(), value.size());
    message_.header.nlmsg_len = static_cast<std::uint32_t>(at + attribute.rta_len);
  }
  /// Returns false with errno if the kernel refuses.
  bool ask() {
    UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!fd || ::send(fd.get(), &message_, message_.header.nlmsg_len, 0) < 0) return false;
    const ssize_t length = recv(fd.get(), answer_.data(), answer_.size(), 0);
    if (length < 0) return false;
    const auto* const header = reinterpret_cast<const nlmsghdr*>(answer_.data());
    if (!NLMSG_OK(header, static_cast<std::uint32_t>(length))) return errno = EPROTO, false;
    if (header->nlmsg_type != NLMSG_ERROR) return true;
    errno = -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    return false;
  }
  const Body& answer() const {
    return *static_cast<const Body*>(
        NLMSG_DATA(const_cast<nlmsghdr*>(reinterpret_cast<const nlmsghdr*>(answer_.data()))));
  }
  /// Returns the value of an attribute of the answer; empty if it is missing.
  std::span<const std::byte> attribute(std::uint16_t type) const {
    const auto* const header = reinterpret_cast<const nlmsghdr*>(answer_.data());
    std::size_t at = NLMSG_SPACE(sizeof(Body));
    while (at + sizeof(rtattr) <= header->nlmsg_len) {
      rtattr found;
      std::memcpy(&found, answer_.data() + at, sizeof found);
      if (found.rta_len < sizeof found || at + found.rta_len > header->nlmsg_len) break;
      if (found.rta_type == type) {
        return std::span(answer_).subspan(at + RTA_LENGTH(0), found.rta_len - RTA_LENGTH(0));
      }
      at += RTA_ALIGN(found.rta_len);
    }
    return {};
  }

 private:
  std::byte* bytes() { return reinterpret_cast<std::byte*>(&message_); }

  struct {
    nlmsghdr header{};
    Body body{};
    std::array<std::byte, 64> room{};
  } message_;
  alignas(nlmsghdr) std::array<std::byte, 4096> answer_{};
};

struct Hop {
  std::uint32_t interface_index = 0;
  bool is_local = false;
};

Result<Hop> find_hop(const SocketAddress& destination, std::uint32_t interface_index) {
  const auto address = bytes_of(destination);
  rtmsg wanted{};
  wanted.rtm_family = static_cast<unsigned char>(destination.family());
  wanted.rtm_dst_len = static_cast<unsigned char>(8 * address.size());
  Question<rtmsg> route(RTM_GETROUTE, wanted);
  route.add(RTA_DST, address);
  if (destination.is_link_local()) {
    route.add(RTA_OIF, std::as_bytes(std::span(&interface_index, 1)));
  }
  if (!route.ask()) return refuse_errno(fmt::format("no route to {}", destination.ip_text()));
  if (!route.attribute(RTA_GATEWAY).empty()) {
    return refuse(EHOSTUNREACH, fmt::format("{} is behind a router, which RoCE v1 does not cross",
                                            destination.ip_text()));
  }
  Hop hop{.is_local = route.answer().rtm_type == RTN_LOCAL};
  const auto out = route.attribute(RTA_OIF);
  if (out.size() != sizeof hop.interface_index) return refuse(ENETUNREACH, "a route to nowhere");
  std::memcpy(&hop.interface_index, out.data(), sizeof hop.interface_index);
  return hop;
}

std::optional<MacAddress> known_mac(const SocketAddress& destination,
                                    std::uint32_t interface_index) {
  constexpr std::uint16_t kKnown =
      NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
  ndmsg wanted{};
  wanted.ndm_family = static_cast<unsigned char>(destination.family());
  wanted.ndm_ifindex = static_cast<int>(interface_index);
  Question<ndmsg> neighbour(RTM_GETNEIGH, wanted);
  neighbour.add(NDA_DST, bytes_of(destination));
  if (!neighbour.ask() || (neighbour.answer().ndm_state & kKnown) == 0) return {};
  const auto found = neighbour.attribute(NDA_LLADDR);
  MacAddress mac;
  if (found.size() != mac.size()) return {};
  std::memcpy(mac.data(), found.data(), mac.size());
  return mac;
}

/// Makes the kernel resolve the neighbour, which it does for a datagram.
void make_kernel_ask(const SocketAddress& destination) {
  const UniqueFd fd(::socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return;
  const SocketAddress to = destination.with_port(kDiscardPort);
  (void)sendto(fd.get(), nullptr, 0, MSG_DONTWAIT, to.data(), to.size());
}

}  // namespace

MacAddress multicast_mac(const SocketAddress& group) {
  const auto bytes = group.ipv6_bytes();
  return {0x33, 0x33, bytes[12], bytes[13], bytes[14], bytes[15]};
}

Result<LinkAddress> resolve_link_address(const SocketAddress& destination,
                                         std::uint32_t interface_index, TimeNs timeout) {
  if (destination.is_multicast()) return LinkAddress{interface_index, multicast_mac(destination)};
  const auto hop = find_hop(destination, interface_index);
  if (!hop) return std::unexpected(hop.error());
  if (hop->is_local) return LinkAddress{.interface_index = hop->interface_index};
  for (const TimeNs end = monotonic_now() + timeout;;) {
    if (const auto mac = known_mac(destination, hop->interface_index)) {
      return LinkAddress{hop->interface_index, *mac};
    }
    if (monotonic_now() >= end) break;
    make_kernel_ask(destination);
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(kLookAgain)};
    nanosleep(&pause, nullptr);
  }
  return refuse(EHOSTUNREACH,
                fmt::format("nobody answers for {} on its network", destination.ip_text()));
}

}  // namespace verbatim::link
