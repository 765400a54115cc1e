#include "ulp/rds/local/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/passed_descriptors.h"

namespace verbatim::ulp::rds::local {
namespace {

constexpr std::size_t kPiecesMax = 1024;  // IOV_MAX

int fail(int error) {
  errno = error;
  return -1;
}

int taken_beside(const msghdr& message) {
  UniqueFd descriptor;
  take_descriptors(message, {&descriptor, 1});
  return descriptor.release();
}

std::size_t total(const iovec* pieces, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

int send_packet(int fd, Head& head, const iovec* pieces, std::size_t count,
                std::span<const int> beside, int flags) {
  std::array<iovec, kPiecesMax + 1> all;
  all[0] = {&head, sizeof head};
  std::copy_n(pieces, count, all.begin() + 1);
  PassedDescriptors place;
  msghdr message{};
  message.msg_iov = all.data();
  message.msg_iovlen = count + 1;
  place.put(message, beside);
  const ssize_t sent = calls().sendmsg(fd, &message, (flags & MSG_DONTWAIT) | MSG_NOSIGNAL);
  if (sent >= 0) return 0;
  // The broker has ended.
  return fail(errno == EPIPE || errno == ECONNRESET ? ENETDOWN : errno);
}

}  // namespace

int file_of(const iovec* pieces, std::size_t count) {
  const int fd = memfd_create("verbatim-rds", MFD_CLOEXEC);
  if (fd < 0) return -1;
  off_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t done = 0; done < pieces[i].iov_len;) {
      const ssize_t written = pwrite(fd, static_cast<const char*>(pieces[i].iov_base) + done,
                                     pieces[i].iov_len - done, at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return calls().close(fd), fail(errno == EFAULT ? EFAULT : ENOBUFS);
      done += static_cast<std::size_t>(written);
      at += written;
    }
  }
  return fd;
}

Calls& calls() {
  static Calls all{.close = ::close, .fcntl = ::fcntl};
  return all;
}

int open_socket(const std::string& path, int flags) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) return fail(ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  const int fd = calls().socket(AF_UNIX, SOCK_SEQPACKET | (flags & SOCK_CLOEXEC), 0);
  if (fd < 0) return -1;
  if (calls().connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    calls().close(fd);
    return fail(EPROTONOSUPPORT);
  }
  if ((flags & SOCK_NONBLOCK) != 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return fd;
}

bool is_socket(int fd, const std::string& path) {
  sockaddr_un address{};
  socklen_t length = sizeof address;
  if (::syscall(SYS_getpeername, fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return false;
  return address.sun_family == AF_UNIX && path == address.sun_path;
}

ssize_t ask(int fd, const Head& question, const void* value, Answer& answer, void* out,
            std::size_t room, int* descriptor, int given) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  Head head = question;
  head.kind = Kind::question;
  const iovec piece{const_cast<void*>(value), head.bytes};
  const std::array<int, 2> gone{ends[1], given};
  const int sent = send_packet(fd, head, &piece, 1, std::span(gone).first(given < 0 ? 1 : 2), 0);
  calls().close(ends[1]);
  ssize_t got = -1;
  if (sent == 0) {
    std::array<iovec, 2> pieces{iovec{&answer, sizeof answer}, iovec{out, room}};
    PassedDescriptors place;
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    place.make_room(message, 1);
    // A signal breaks it off, as it does a blocking send.
    got = calls().recvmsg(ends[0], &message, MSG_CMSG_CLOEXEC);
    const int beside = got > 0 ? taken_beside(message) : -1;
    if (descriptor != nullptr) {
      *descriptor = beside;
    } else if (beside >= 0) {
      calls().close(beside);
    }
  }
  const int error = errno;
  calls().close(ends[0]);
  if (sent != 0 || got < 0) return fail(error);
  if (got < static_cast<ssize_t>(sizeof answer) || answer.magic != kMagic) return fail(ENETDOWN);
  if (answer.error != 0) return fail(answer.error);
  return got - static_cast<ssize_t>(sizeof answer);
}

ssize_t ask(int fd, Ask what, Answer& answer) { return ask(fd, {.ask = what}, nullptr, answer); }

const SharedPage* open_page(int fd) {
  Answer answer;
  int file = -1;
  if (ask(fd, {.ask = Ask::shared_page}, nullptr, answer, nullptr, 0, &file) < 0 || file < 0)
    return nullptr;
  void* const mapped = mmap(nullptr, sizeof(SharedPage), PROT_READ, MAP_SHARED, file, 0);
  calls().close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<const SharedPage*>(mapped);
}

bool to_address(const sockaddr* from, socklen_t length, Address& to) {
  const socklen_t least = from->sa_family == AF_INET6 ? sizeof to.ipv6 : sizeof to.ipv4;
  if (length < sizeof from->sa_family || length < least ||
      (from->sa_family != AF_INET && from->sa_family != AF_INET6)) {
    errno = EINVAL;
    return false;
  }
  std::memcpy(&to, from, least);
  return true;
}

socklen_t length_of(const Address& address) {
  return address.any.sa_family == AF_INET6 ? sizeof address.ipv6 : sizeof address.ipv4;
}

void copy_name(const Address& from, sockaddr* to, socklen_t* length) {
  const socklen_t whole = length_of(from);
  std::memcpy(to, &from, std::min(whole, *length));
  *length = whole;
}

ssize_t send(int fd, const Address& to, const iovec* pieces, std::size_t count, int flags) {
  if (count > kPiecesMax) return fail(EMSGSIZE);
  const std::size_t bytes = total(pieces, count);
  Head head{.kind = Kind::message, .bytes = static_cast<std::uint32_t>(bytes), .address = to};
  int result = 0;
  if (bytes <= kInlineBytesMax) {
    result = send_packet(fd, head, pieces, count, {}, flags);
  } else {
    const int file = file_of(pieces, count);
    if (file < 0) return -1;
    head.kind = Kind::message_in_file;
    result = send_packet(fd, head, nullptr, 0, {&file, 1}, flags);
    const int error = errno;
    calls().close(file);
    errno = error;
  }
  return result == 0 ? static_cast<ssize_t>(bytes) : -1;
}

}  // namespace verbatim::ulp::rds::local
