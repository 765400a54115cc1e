#include "ulp/ipoib/interface/interface.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/assert.h"
#include "base/os/passed_descriptors.h"

namespace verbatim::ulp::ipoib {
namespace {

constexpr const char* kTun = "/dev/net/tun";
constexpr std::size_t kDescriptors = 4;

/// What the child says: all went well, or an errno value and words.
struct Report {
  int code = 0;
  int index = 0;
  char text[500] = {};
};

Result<void> enter(const std::string& file, int kind) {
  const UniqueFd there(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!there) return refuse_errno(file);
  if (setns(there.get(), kind) == 0) return {};
  return refuse_errno(fmt::format("entering {}", file));
}

Result<void> enter_namespaces(const std::string& netns) {
  if (netns.empty()) return {};
  if (!std::ranges::all_of(netns, [](char c) { return c >= '0' && c <= '9'; }))
    return enter(netns, CLONE_NEWNET);
  const std::string folder = fmt::format("/proc/{}/ns/", netns);
  struct stat there{}, here{};
  if (stat((folder + "user").c_str(), &there) != 0)
    return refuse(ESRCH, fmt::format("no process {} of this user runs", netns));
  stat("/proc/self/ns/user", &here);
  if (there.st_ino != here.st_ino) {
    if (auto entered = enter(folder + "user", CLONE_NEWUSER); !entered) return entered;
  }
  return enter(folder + "net", CLONE_NEWNET);
}

Result<UniqueFd> open_tun(const std::string& name) {
  UniqueFd tun(open(kTun, O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tun) {
    return refuse(errno, fmt::format("{}: {}. It needs the kernel's module 'tun' ('modprobe tun'), "
                                     "and in a container '--device {}'",
                                     kTun, std::strerror(errno), kTun));
  }
  if (if_nametoindex(name.c_str()) != 0)
    return refuse(EEXIST, fmt::format("an interface {} is there already", name));
  ifreq request{};
  std::copy_n(name.data(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1), request.ifr_name);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(tun.get(), TUNSETIFF, &request) != 0) {
    if (errno != EPERM) return refuse_errno(fmt::format("interface {}", name));
    return refuse(
        EPERM,
        "interfaces need CAP_NET_ADMIN, which this user does not have here. In a user and "
        "network namespace every user has it: 'unshare -rn' begins one, and '--netns PID' "
        "names a process of one. Or be root");
  }
  // ARPHRD_INFINIBAND, while it is down.
  if (ioctl(tun.get(), TUNSETLINK, ARPHRD_INFINIBAND) != 0) return refuse_errno("TUNSETLINK");
  return tun;
}

Result<UniqueFd> netlink_socket(std::uint32_t groups) {
  UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!netlink) return refuse_errno("netlink");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (bind(netlink.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return refuse_errno("netlink");
  return netlink;
}

struct Made {
  int index = 0;
  std::array<UniqueFd, kDescriptors> descriptors;
};

Result<Made> make(const InterfacePlace& place) {
  if (auto entered = enter_namespaces(place.netns); !entered)
    return std::unexpected(entered.error());
  auto tun = open_tun(place.name);
  if (!tun) return std::unexpected(tun.error());
  auto questions = netlink_socket(0);
  auto changes = netlink_socket(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                                RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE);
  if (!questions || !changes) return std::unexpected((questions ? changes : questions).error());
  UniqueFd control(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!control) return refuse_errno("socket");
  Made made{.index = static_cast<int>(if_nametoindex(place.name.c_str()))};
  made.descriptors = {std::move(*tun), std::move(*questions), std::move(*changes),
                      std::move(control)};
  return made;
}

void send_report(int socket, const Report& report, const Made* made) {
  const iovec data{const_cast<Report*>(&report), sizeof report};
  std::array<int, kDescriptors> numbers{};
  if (made != nullptr) std::ranges::transform(made->descriptors, numbers.begin(), &UniqueFd::get);
  send_message(socket, {&data, 1}, std::span(numbers).first(made == nullptr ? 0 : kDescriptors));
}

[[noreturn]] void be_child(int socket, const InterfacePlace& place) {
  const auto made = make(place);
  Report report;
  if (made) {
    report.index = made->index;
    send_report(socket, report, &*made);
    _exit(0);
  }
  report.code = made.error().code;
  std::strncpy(report.text, made.error().text.c_str(), sizeof report.text - 1);
  send_report(socket, report, nullptr);
  _exit(1);
}

Result<Made> receive_report(int socket) {
  Report report;
  const iovec data{&report, sizeof report};
  Made made;
  const auto message = receive_message(socket, {&data, 1}, made.descriptors);
  if (!message && errno == EMFILE) return refuse(EMFILE, "too few descriptors for an interface");
  if (!message || message->bytes != sizeof report)
    return refuse(EIO, "the child that makes the interface has ended");
  if (report.code != 0) return refuse(report.code, report.text);
  if (message->descriptors != kDescriptors) return refuse(EIO, "the child's report is incomplete");
  made.index = report.index;
  return made;
}

}  // namespace

Result<Interface> Interface::create(const InterfacePlace& place) {
  if (place.name.empty() || place.name.size() >= IFNAMSIZ || place.name.contains('/'))
    return refuse(EINVAL,
                  fmt::format("an interface's name has 1 to 15 characters, not '{}'", place.name));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return refuse_errno("socketpair");
  const UniqueFd own(ends[0]);
  UniqueFd its(ends[1]);
  const pid_t child = fork();
  if (child < 0) return refuse_errno("fork");
  if (child == 0) be_child(its.get(), place);
  its.reset();
  auto made = receive_report(own.get());
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!made) return std::unexpected(made.error());
  Interface interface;
  interface.name_ = place.name;
  interface.index_ = made->index;
  auto& [packets, questions, changes, control] = made->descriptors;
  interface.packets_ = std::move(packets);
  interface.questions_ = std::move(questions);
  interface.changes_ = std::move(changes);
  interface.control_ = std::move(control);
  return interface;
}

Result<MutableByteSpan> Interface::read(OffloadHeader& header, MutableByteSpan into) {
  const iovec parts[] = {{&header, sizeof header}, {into.data(), into.size()}};
  const auto got = readv(packets_.get(), parts, 2);
  if (got > static_cast<ssize_t>(sizeof header))
    return into.first(static_cast<std::size_t>(got) - sizeof header);
  if (got >= 0 || errno == EAGAIN || errno == EINTR) return MutableByteSpan();
  return refuse_errno(fmt::format("interface {}", name_));
}

bool Interface::write(const OffloadHeader& header, std::span<const ByteSpan> parts) {
  VERBATIM_ASSERT(parts.size() <= kPartsMax);
  std::array<iovec, 1 + kPartsMax> all;
  all[0] = {const_cast<OffloadHeader*>(&header), sizeof header};
  for (std::size_t i = 0; i < parts.size(); ++i)
    all[1 + i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
  return writev(packets_.get(), all.data(), static_cast<int>(1 + parts.size())) >= 0;
}

/// Datagrams of UDP are cut from Linux 6.2 on.
bool Interface::take_large_packets() {
  constexpr unsigned kUso = 0x20 | 0x40;  // TUN_F_USO4 and 6, which Debian 12's header lacks.
  constexpr unsigned kTso = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
  return ioctl(packets_.get(), TUNSETOFFLOAD, kTso | kUso) == 0 ||
         ioctl(packets_.get(), TUNSETOFFLOAD, kTso) == 0;
}

namespace {

ifreq request_of(const std::string& name) {
  ifreq request{};
  std::copy_n(name.data(), name.size(), request.ifr_name);
  return request;
}

}  // namespace

Result<void> Interface::set_mtu(std::uint32_t bytes) {
  ifreq request = request_of(name_);
  request.ifr_mtu = static_cast<int>(bytes);
  if (ioctl(control_.get(), SIOCSIFMTU, &request) == 0) return {};
  return refuse_errno(fmt::format("the MTU of {} cannot be {}", name_, bytes));
}

Result<void> Interface::set_up() {
  ifreq request = request_of(name_);
  if (ioctl(control_.get(), SIOCGIFFLAGS, &request) == 0) {
    request.ifr_flags |= IFF_UP;
    if (ioctl(control_.get(), SIOCSIFFLAGS, &request) == 0) return {};
  }
  return refuse_errno(fmt::format("{} cannot be set up", name_));
}

void Interface::set_carrier(bool has_carrier) {
  int value = has_carrier ? 1 : 0;
  ioctl(packets_.get(), TUNSETCARRIER, &value);
}

}  // namespace verbatim::ulp::ipoib
