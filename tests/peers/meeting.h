#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/programs/endpoint.h"

/// One TCP connection by which two test programs on two hosts exchange their parameters.
namespace peers {

using endpoint::check;

/// A TCP connection to the other program. Both have the same kind of CPU, so values are sent as
/// they are.
class ControlConnection {
 public:
  /// Waits for the other program at `port`.
  static ControlConnection of_server(const char* port) {
    addrinfo* found = resolve(nullptr, port);
    const int listener = socket(found->ai_family, SOCK_STREAM, 0);
    check(listener >= 0, "socket");
    const int yes = 1;
    check(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0, "SO_REUSEADDR");
    check(bind(listener, found->ai_addr, found->ai_addrlen) == 0, "bind");
    check(listen(listener, 1) == 0, "listen");
    freeaddrinfo(found);
    const ControlConnection line(accept(listener, nullptr, nullptr));
    close(listener);
    return line;
  }
  static ControlConnection of_client(const char* host, const char* port) {
    addrinfo* found = resolve(host, port);
    const int end = socket(found->ai_family, SOCK_STREAM, 0);
    check(end >= 0, "socket");
    check(connect(end, found->ai_addr, found->ai_addrlen) == 0, std::string("connect to ") + host);
    freeaddrinfo(found);
    return ControlConnection(end);
  }

  template <typename T>
  void send_value(const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    check(send(end_, &value, sizeof value, MSG_NOSIGNAL) == sizeof value, "the peer has gone");
  }
  template <typename T>
  T receive_value() const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    check(recv(end_, &value, sizeof value, MSG_WAITALL) == sizeof value, "the peer has ended");
    return value;
  }
  /// Returns when the other side has called it, too.
  void barrier() const {
    send_value('m');
    receive_value<char>();
  }

 private:
  explicit ControlConnection(int end) : end_(end) { check(end >= 0, "TCP connection"); }
  static addrinfo* resolve(const char* host, const char* port) {
    addrinfo hints{};
    hints.ai_family = host == nullptr ? AF_INET6 : AF_UNSPEC;  // One listener accepts both.
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = host == nullptr ? AI_PASSIVE : 0;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host, port, &hints, &found);
    check(error == 0, std::string("address: ") + gai_strerror(error));
    return found;
  }

  int end_;
};

}  // namespace peers
