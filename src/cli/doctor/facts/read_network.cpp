#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "cli/doctor/facts/machine.h"

/// Reads interfaces and the users of ports.
namespace verbatim::cli::doctor {
namespace {

namespace fs = std::filesystem;

/// A line of /proc/net/udp, tcp, udp6 or tcp6.
struct SocketLine {
  SocketAddress address;
  std::string state;
  uid_t uid = 0;
  std::string inode;
};

/// Parses "0100007F:12B7": the address in words of the kernel's byte order, and the port.
SocketAddress parse_address(std::string_view text) {
  constexpr std::size_t kDigits = 8;  // In one word.
  const auto number = [](std::string_view digits) {
    std::uint32_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return value;
  };
  const auto colon = text.find(':');
  if (colon != kDigits && colon != 4 * kDigits) return {};
  const auto port = static_cast<std::uint16_t>(number(text.substr(colon + 1)));
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t word = 0; word < colon / kDigits; ++word) {
    const std::uint32_t value = number(text.substr(word * kDigits, kDigits));
    std::memcpy(bytes.data() + word * sizeof value, &value, sizeof value);
  }
  if (colon != kDigits) return SocketAddress::ipv6(bytes, port);
  return SocketAddress::ipv4({bytes[0], bytes[1], bytes[2], bytes[3]}, port);
}

std::vector<SocketLine> read_sockets(const std::string& path) {
  std::vector<SocketLine> sockets;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // The heading.
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number, local, remote, queues, timer, retransmits, timeout;
    SocketLine socket;
    words >> number >> local >> remote >> socket.state >> queues >> timer >> retransmits >>
        socket.uid >> timeout >> socket.inode;
    socket.address = parse_address(local);
    if (words && !socket.address.empty()) sockets.push_back(std::move(socket));
  }
  return sockets;
}

/// Returns the process that has the socket, if this user may inspect it.
pid_t owner_of(const std::string& inode) {
  const std::string wanted = "socket:[" + inode + "]";
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const std::string name = process.path().filename();
    pid_t pid = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failure != std::errc() || end != name.data() + name.size()) continue;
    std::error_code refused;
    for (const auto& descriptor : fs::directory_iterator(process.path() / "fd", refused)) {
      if (fs::read_symlink(descriptor.path(), refused) == wanted) return pid;
    }
  }
  return 0;
}

PortUser user_of(const SocketLine& socket) {
  PortUser user{.address = socket.address, .uid = socket.uid, .program = {}};
  user.pid = owner_of(socket.inode);
  if (user.pid != 0) user.program = first_line(fmt::format("/proc/{}/comm", user.pid));
  return user;
}

/// Adds each address once, because a node's sockets share it.
void add_users(const std::string& table, std::vector<PortUser>& users,
               bool (*is_wanted)(const SocketLine&)) {
  for (const SocketLine& socket : read_sockets("/proc/net/" + table)) {
    const auto is_same = [&](const PortUser& user) { return user.address == socket.address; };
    if (is_wanted(socket) && std::ranges::none_of(users, is_same)) {
      users.push_back(user_of(socket));
    }
  }
}

bool is_roce(const SocketLine& socket) { return socket.address.port() == kRocePort; }

/// Owners are searched only for ports that programs use by default.
bool listens_at_known_port(const SocketLine& socket) {
  constexpr std::string_view kListening = "0A";
  constexpr std::array<std::uint16_t, 3> kPorts{18515, 19765, 13337};
  return socket.state == kListening &&
         std::ranges::find(kPorts, socket.address.port()) != kPorts.end();
}

}  // namespace

void read_network(Machine& machine) {
  if (auto interfaces = agent::read_interfaces()) machine.interfaces = std::move(*interfaces);
  for (const char* table : {"udp", "udp6"}) add_users(table, machine.roce_ports, is_roce);
  for (const char* table : {"tcp", "tcp6"}) {
    add_users(table, machine.tcp_ports, listens_at_known_port);
  }
}

}  // namespace verbatim::cli::doctor
