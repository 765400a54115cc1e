// The yardstick of bench/ipoib.py: one end of a pair of TUN interfaces whose packets go by UDP over
// loopback. bench_tun_over_udp PID NAME MTU PORT PEER_PORT: the interface is in the namespaces of
// the process, the socket is not.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

int check(int result, const char* what) {
  if (result >= 0) return result;
  std::perror(what);
  std::exit(1);
}

sockaddr_in loopback(const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int open_socket(const char* port, const char* peer_port) {
  const int socket = check(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), "socket");
  const int bytes = 8 << 20;  // So far as the user may.
  setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  const sockaddr_in own = loopback(port), peer = loopback(peer_port);
  check(bind(socket, reinterpret_cast<const sockaddr*>(&own), sizeof own), "bind");
  check(connect(socket, reinterpret_cast<const sockaddr*>(&peer), sizeof peer), "connect");
  return socket;
}

void enter(const std::string& folder, const char* name, int kind) {
  const int there = check(open((folder + name).c_str(), O_RDONLY), name);
  check(setns(there, kind), name);
  close(there);
}

int open_tun(const char* name, int mtu) {
  const int tun = check(open("/dev/net/tun", O_RDWR | O_NONBLOCK), "/dev/net/tun");
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  check(ioctl(tun, TUNSETIFF, &request), "TUNSETIFF");
  const int control = check(socket(AF_INET, SOCK_DGRAM, 0), "socket");
  request.ifr_mtu = mtu;
  check(ioctl(control, SIOCSIFMTU, &request), "SIOCSIFMTU");
  request.ifr_flags = IFF_UP;
  check(ioctl(control, SIOCSIFFLAGS, &request), "SIOCSIFFLAGS");
  close(control);
  return tun;
}

/// At most 64 packets, so that both directions have their turn.
void move_packets(int from, int to) {
  static std::array<char, 65536> packet;
  for (int i = 0; i < 64; ++i) {
    const ssize_t bytes = read(from, packet.data(), packet.size());
    if (bytes <= 0) return;
    if (write(to, packet.data(), static_cast<std::size_t>(bytes)) < 0) continue;  // Lost.
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int socket = open_socket(argv[4], argv[5]);
  const std::string namespaces = std::string("/proc/") + argv[1] + "/ns/";
  enter(namespaces, "user", CLONE_NEWUSER);
  enter(namespaces, "net", CLONE_NEWNET);
  const int tun = open_tun(argv[2], std::atoi(argv[3]));
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    std::array<pollfd, 2> ready{{{tun, POLLIN, 0}, {socket, POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0) return 1;
    if ((ready[0].revents & POLLIN) != 0) move_packets(tun, socket);
    if ((ready[1].revents & POLLIN) != 0) move_packets(socket, tun);
  }
}
