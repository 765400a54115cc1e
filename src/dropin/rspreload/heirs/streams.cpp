#include "dropin/rspreload/heirs/streams.h"

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dropin/rspreload/own_numbers.h"
#include "ulp/rsocket/private.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {

std::shared_ptr<ulp::sockets::Source> source_of(int number) {
  std::shared_ptr<ulp::sockets::Source> source;
  verbatim_rsource(number, &source);
  return source;
}

int own_number_of(int fd) {
  const int number = with_high_number(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (number < 0) return -1;
  if (verbatim_rdup3(fd, number, O_CLOEXEC) == number) return number;
  close(number);
  return -1;
}

Names names_of(int number) {
  Names names;
  socklen_t local_length = sizeof names.local, peer_length = sizeof names.peer;
  rgetsockname(number, reinterpret_cast<sockaddr*>(&names.local), &local_length);
  rgetpeername(number, reinterpret_cast<sockaddr*>(&names.peer), &peer_length);
  return names;
}

bool is_stream(int number) {
  int type = 0;
  socklen_t length = sizeof type;
  sockaddr_storage peer{};
  socklen_t peer_length = sizeof peer;
  return rgetsockopt(number, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM &&
         rgetpeername(number, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0;
}

void copy_limits(int rsocket, int plain) {
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    timeval limit{};
    socklen_t length = sizeof limit;
    if (rgetsockopt(rsocket, SOL_SOCKET, option, &limit, &length) != 0) continue;
    setsockopt(plain, SOL_SOCKET, option, &limit, length);
  }
}

}  // namespace verbatim::rspreload
