#include "ulp/sdp/rules.h"

#include <gtest/gtest.h>

namespace verbatim::ulp::sdp {
namespace {

constexpr std::string_view kFile = R"(# Which sockets go where.
log min-level 7 destination file /tmp/libsdp.log
use tcp     server  sshd     *:*
use sdp     client  iperf*   10.0.0.0/8:5000-5999   # a network
use rsocket connect *        10.0.0.9:80
use tcp     client  *        127.0.0.1:*
use both    listen  *        *:80
use sdp     listen  nginx    0.0.0.0:8080
use tcp     connect *        [fd00::]/8:*
)";

TEST(SdpRules, TheFirstThatMatchesCounts) {
  const auto rules = Rules::parse(kFile);
  ASSERT_TRUE(rules) << rules.error().text;
  EXPECT_EQ(rules->log_level(), 7);
  struct Case {
    Role role;
    const char* program;
    const char* address;
    std::uint16_t port;
    Carrier carrier;
  };
  const Case kCases[] = {
      {Role::server, "sshd", "0.0.0.0", 22, Carrier::tcp},
      {Role::client, "sshd", "10.1.2.3", 22, Carrier::both},
      {Role::client, "iperf3", "10.1.2.3", 5201, Carrier::sdp},
      {Role::client, "iperf3", "::ffff:10.1.2.3", 5201, Carrier::sdp},
      {Role::client, "iperf3", "11.1.2.3", 5201, Carrier::both},
      {Role::client, "iperf3", "10.1.2.3", 4999, Carrier::both},
      {Role::client, "wrk", "10.0.0.9", 80, Carrier::rsocket},
      {Role::client, "wrk", "10.0.0.8", 80, Carrier::both},
      {Role::client, "wrk", "127.0.0.1", 80, Carrier::tcp},
      {Role::server, "nginx", "0.0.0.0", 8080, Carrier::sdp},
      {Role::server, "nginx", "::", 8080, Carrier::both},
      {Role::client, "wrk", "fd12::1", 80, Carrier::tcp},
      {Role::client, "wrk", "fe80::1", 80, Carrier::both},
  };
  for (const Case& it : kCases) {
    EXPECT_EQ(rules->match(it.role, it.program, *SocketAddress::parse(it.address, it.port)),
              it.carrier)
        << it.program << ' ' << it.address << ':' << it.port;
  }
}

TEST(SdpRules, MistakesAreNamedWithTheirLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {"use sdp server * *", "line 1: no port after the address: '*'"},
      {"\nuse sdp server *",
       "line 2: not of the form 'use CARRIER ROLE PROGRAM ADDRESS:PORT': 'use'"},
      {"use udp server * *:*", "line 1: none of tcp, sdp, both and rsocket: 'udp'"},
      {"use sdp serve * *:*", "line 1: none of server, listen, client and connect: 'serve'"},
      {"use sdp server * 10.0.0:80", "line 1: no address: '10.0.0'"},
      {"use sdp server * 10.0.0.0/33:80", "line 1: no length of a network: '10.0.0.0/33'"},
      {"use sdp server * *:90-80", "line 1: no port or range of ports: '90-80'"},
      {"use sdp server * *:70000", "line 1: no port or range of ports: '70000'"},
      {"log min-level 0", "line 1: no level from 1 to 9: '0'"},
      {"log loud", "line 1: neither destination nor min-level: 'loud'"},
      {"match both *", "line 1: neither 'use' nor 'log': 'match'"},
  };
  for (const auto& [text, words] : kCases) EXPECT_EQ(Rules::parse(text).error().text, words);
}

TEST(SdpRules, WithoutRulesBoth) {
  EXPECT_EQ(Rules::parse("")->match(Role::client, "a", *SocketAddress::parse("10.0.0.1", 1)),
            Carrier::both);
}

}  // namespace
}  // namespace verbatim::ulp::sdp
