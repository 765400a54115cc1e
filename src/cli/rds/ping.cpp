#include "cli/rds/ping.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/rds/broker.h"
#include "ulp/rds/local/client.h"

namespace verbatim::cli {
namespace {

namespace local = ulp::rds::local;

int fail(const std::string& text, int status = kExitFailure) {
  fmt::print(stderr, "verbatim rds ping: {}\n", text);
  return status;
}

Result<SocketAddress> find_address(const std::string& text) {
  if (auto address = SocketAddress::parse(text)) return address;
  addrinfo* found = nullptr;
  const addrinfo hints{.ai_family = AF_INET, .ai_socktype = SOCK_SEQPACKET};
  const int error = getaddrinfo(text.c_str(), nullptr, &hints, &found);
  if (error != 0) return refuse(EINVAL, fmt::format("{}: {}", text, gai_strerror(error)));
  auto address = SocketAddress::from(found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

local::Address to_local(const SocketAddress& address) {
  local::Address to{.ipv6 = {}};
  std::memcpy(&to, address.data(), address.size());
  return to;
}

/// A socket that is bound to the node's address from which it speaks with the peer.
Result<UniqueFd> open_socket(const SocketAddress& peer, const std::string& from) {
  const auto path = find_rds_broker(false);
  if (!path) return std::unexpected(path.error());
  UniqueFd fd(local::open_socket(*path, SOCK_CLOEXEC));
  if (!fd) return refuse_errno("the RDS broker");
  local::Answer answer;
  local::Head question{.ask = local::Ask::source_for, .address = to_local(peer)};
  if (!from.empty()) {
    const auto own = find_address(from);
    if (!own) return std::unexpected(own.error());
    answer.address = to_local(*own);
  } else if (local::ask(fd.get(), question, nullptr, answer) < 0) {
    return refuse_errno(fmt::format(
        "which address of this node speaks with {}? Name it with --from", peer.ip_text()));
  }
  question = {.ask = local::Ask::bind, .address = answer.address};
  if (local::ask(fd.get(), question, nullptr, answer) < 0)
    return refuse_errno(from.empty() ? "bind" : from);
  return fd;
}

/// Waits for an answer until `until`.
bool has_answer(int fd, local::Inbox& inbox, TimeNs until) {
  for (;;) {
    const TimeNs left = elapsed(monotonic_now(), until);
    local::arm(fd, inbox);
    pollfd waits{fd, POLLIN, 0};
    const int ready = poll(&waits, 1, static_cast<int>(left / kMillisecond));
    local::disarm(inbox);
    if (ready > 0) {
      local::Received received;
      const ssize_t got = local::receive(fd, inbox, nullptr, 0, MSG_DONTWAIT, received);
      if (got < 0 && errno != EAGAIN) return false;
      if (got >= 0 && received.head.kind == local::Kind::message) return true;
    }
    if (left < kMillisecond) return false;
  }
}

}  // namespace

int rds_ping(const PingForm& form) {
  const auto peer = find_address(form.peer);
  if (!peer) return fail(peer.error().text, kExitUsage);
  const auto fd = open_socket(*peer, form.from);
  if (!fd) return fail(fd.error().text);
  const std::unique_ptr<local::Inbox, decltype(&local::unmap)> inbox(local::open_inbox(fd->get()),
                                                                     local::unmap);
  if (!inbox) return fail(std::strerror(errno));
  const auto interval = static_cast<TimeNs>(form.interval * static_cast<double>(kSecond));
  std::uint64_t answers = 0;
  for (std::uint64_t i = 1; form.count == 0 || i <= form.count; ++i) {
    const TimeNs began = monotonic_now();
    if (local::send(fd->get(), to_local(*peer), nullptr, 0, 0) < 0)
      return fail(std::strerror(errno));
    if (has_answer(fd->get(), *inbox, began + interval)) {
      ++answers;
      fmt::print("{:4}: {} usec\n", i, elapsed(began, monotonic_now()) / kMicrosecond);
    } else {
      fmt::print("{:4}: no answer\n", i);
    }
    std::fflush(stdout);
    const TimeNs took = elapsed(began, monotonic_now());
    if (i != form.count && took < interval)
      usleep(static_cast<useconds_t>((interval - took) / kMicrosecond));
  }
  return answers > 0 ? 0 : kExitFailure;
}

}  // namespace verbatim::cli
