#include "dropin/rspreload/pending/sign.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "dropin/rspreload/fd_table.h"

namespace verbatim::rspreload {
namespace {

constexpr int kListener = 1199;
constexpr int kClient = 1201;
constexpr int kTimestamps = 12;  // The kernel's value leaves out the options of each segment.

void set(int fd, int option, int value) {
  setsockopt(fd, IPPROTO_TCP, option, &value, sizeof value);
}

/// The MSS that a SYN with its IP header announces; 0: none.
int mss_of(std::span<const std::uint8_t> syn) {
  if (syn.size() < 20) return 0;
  const std::size_t ip = syn[0] >> 4 == 6 ? 40 : std::size_t{syn[0] & 15u} * 4;
  if (syn.size() < ip + 20) return 0;
  auto options =
      syn.subspan(ip).first(std::min<std::size_t>(syn.size() - ip, (syn[ip + 12] >> 4) * 4u));
  options = options.subspan(std::min<std::size_t>(options.size(), 20));
  while (options.size() >= 4) {
    if (options[0] == TCPOPT_MAXSEG) return options[2] << 8 | options[3];
    const std::size_t bytes = options[0] == TCPOPT_NOP ? 1 : options[1];
    if (options[0] == TCPOPT_EOL || bytes == 0 || bytes > options.size()) return 0;
    options = options.subspan(bytes);
  }
  return 0;
}

}  // namespace

void sign_listener(int fd) {
  const Inside mark;
  set(fd, TCP_MAXSEG, kListener);
  set(fd, TCP_SAVE_SYN, 1);
}

void sign_client(int fd) {
  const Inside mark;
  set(fd, TCP_MAXSEG, kClient);
}

bool comes_from_ours(int fd) {
  const Inside mark;
  std::array<std::uint8_t, 128> syn;
  socklen_t length = syn.size();
  if (getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, syn.data(), &length) != 0) return false;
  return mss_of(std::span(syn).first(length)) == kClient;
}

bool goes_to_ours(int fd) {
  const Inside mark;
  int mss = 0;
  socklen_t length = sizeof mss;
  if (getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &length) != 0) return false;
  return mss == kListener || mss == kListener - kTimestamps;
}

}  // namespace verbatim::rspreload
