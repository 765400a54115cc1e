#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::ulp::sdp {

/// What carries a program's TCP socket.
enum class Carrier : std::uint8_t {
  tcp,
  sdp,
  both,     // A listener: SDP and TCP. A client: SDP, or TCP where the other end has no SDP.
  rsocket,  // An addition to libsdp.conf's form.
};

enum class Role : std::uint8_t { server, client };

/// Which sockets are SDP's: rules in the form of libsdp.conf, of which the first that matches
/// counts. Without one, `both`.
///
///     # comment
///     log [destination stderr|syslog|file PATH] [min-level 1..9]
///     use tcp|sdp|both|rsocket  server|listen|client|connect  PROGRAM|*
///     ADDRESS[/LENGTH]|*:PORT[-PORT]|*
///
/// PROGRAM is a pattern as the shell's; an IPv6 address is in brackets.
class Rules {
 public:
  /// EINVAL with the number of the line, and what is wrong in it.
  static Result<Rules> parse(std::string_view text);

  /// `address`: where a server listens, or a client connects to. An IPv4-mapped one counts as IPv4.
  Carrier match(Role role, const std::string& program, const SocketAddress& address) const;

  /// The least level that is logged: 9 errors, 7 which carrier each socket has, down to 1.
  int log_level() const { return log_level_; }

 private:
  struct Rule {
    Carrier carrier{};
    Role role{};
    std::string program;
    bool is_any_address = true;
    bool is_ipv6 = false;
    std::array<std::uint8_t, 16> address{};  // IPv4 as ::ffff:a.b.c.d.
    unsigned bits = 0;                       // That an address has in common with it.
    std::uint16_t first_port = 0;
    std::uint16_t last_port = 65'535;
  };
  static Result<Rule> parse_use(const std::vector<std::string_view>& words);
  static Result<void> parse_place(std::string_view text, Rule& rule);
  static Result<void> parse_ports(std::string_view text, Rule& rule);
  Result<void> parse_log(const std::vector<std::string_view>& words);
  static bool fits(const Rule& rule, const SocketAddress& address);

  std::vector<Rule> rules_;
  int log_level_ = 9;
};

const char* name_of(Carrier carrier);

}  // namespace verbatim::ulp::sdp
