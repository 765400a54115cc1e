#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/udp/udp.h"

/// Which datagrams are too large, tested in a child process in a new network namespace, whose
/// loopback interface has an MTU of 1,500 bytes.
namespace verbatim::link {
namespace {

constexpr int kSkipped = 77;

struct Ended {
  int status = 0;
  std::string said;  // Standard error.
};

/// As root, or as root of a new user namespace.
bool enter_network_namespace() {
  const uid_t user = geteuid();
  if (user == 0) return unshare(CLONE_NEWNET) == 0;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const UniqueFd map(open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC));
  const std::string line = fmt::format("0 {} 1", user);
  return write(map.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

/// Runs `check` in a child process, which exits with its result.
template <typename Check>
Ended in_small_network(std::string_view more_commands, Check&& check) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    if (!enter_network_namespace()) _exit(kSkipped);
    const std::string commands =
        "ip link set lo mtu 1500 && ip link set lo up" + std::string(more_commands);
    // This process has no other thread. NOLINTNEXTLINE(concurrency-mt-unsafe)
    if (std::system(commands.c_str()) != 0) _exit(kSkipped);
    _exit(check());
  }
  close(ends[1]);
  Ended ended;
  char text[512];
  for (ssize_t got; (got = read(ends[0], text, sizeof text)) > 0;) {
    ended.said.append(text, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

struct Sent {
  std::size_t bytes, segment_bytes;
  int error;
};

/// Returns the number of the first send with an unexpected result; 0: none.
int check_sends(std::string_view ip, const std::vector<Sent>& sends) {
  const auto to = SocketAddress::parse(ip, kRocePort).value();
  UdpSender sender(to, if_nametoindex("lo"));
  const SendSocket* const socket = sender.socket_for(to, Qpn(0x4001)).value();
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const std::vector<std::byte> bytes(sends[i].bytes);
    if (socket->send(to, bytes, sends[i].segment_bytes) != sends[i].error) {
      return static_cast<int>(i) + 1;
    }
  }
  return 0;
}

const std::vector<Sent> kIpv4Sends{{1472, 0, 0},    {1473, 0, EMSGSIZE},    {4000, 1000, 0},
                                   {4416, 1472, 0}, {3500, 1473, EMSGSIZE}, {1472, 0, 0}};
const std::vector<Sent> kIpv6Sends{{1452, 0, 0},    {1453, 0, EMSGSIZE},    {4000, 1000, 0},
                                   {4356, 1452, 0}, {3500, 1453, EMSGSIZE}, {1452, 0, 0}};

std::size_t count(std::string_view text, std::string_view word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

void expect_ends(std::string_view commands, std::string_view ip, const std::vector<Sent>& sends) {
  const Ended ended = in_small_network(commands, [&] { return check_sends(ip, sends); });
  if (ended.status == kSkipped) GTEST_SKIP() << "no network namespace: " << ended.said;
  EXPECT_EQ(ended.status, 0) << ip << ": this send (from 1 on) ended as it should not";
  EXPECT_EQ(count(ended.said, "MTU is smaller"), 1u) << ended.said;
}

TEST(UdpMtu, TheInterfaceLimitsDatagramsAndThatIsToldOnce) {
  expect_ends("", "127.0.0.1", kIpv4Sends);
  expect_ends("", "::1", kIpv6Sends);
}

// An ICMP error, which any host can forge, lowers a route's MTU.
TEST(UdpMtu, TheRoutesMtuLimitsNothing) {
  expect_ends(" && ip route replace local 127.0.0.1 dev lo table local mtu 600", "127.0.0.1",
              kIpv4Sends);
  expect_ends(" && ip -6 route replace local ::1 dev lo table local mtu 1280", "::1", kIpv6Sends);
}

}  // namespace
}  // namespace verbatim::link
