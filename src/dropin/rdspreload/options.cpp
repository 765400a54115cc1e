// setsockopt, getsockopt, ioctl.
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <vector>

#include <asm/ioctls.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "dropin/rdspreload/fd_table.h"
#include "dropin/rdspreload/granted_memory.h"
#include "dropin/rdspreload/linux_rds.h"
#include "dropin/rdspreload/next.h"

namespace verbatim::rdspreload {
namespace {

namespace local = ulp::rds::local;

constexpr int kFirstList = 10'000, kLastList = 10'017;  // RDS_INFO_*
constexpr int kCancelSentTo = 1;
constexpr unsigned long kSetTos = SIOCPROTOPRIVATE, kGetTos = SIOCPROTOPRIVATE + 1;

int fail(int error) {
  errno = error;
  return -1;
}

int set(int fd, std::int32_t option, std::uint64_t value) {
  const local::Head question{.ask = local::Ask::set_option, .option = option, .value = value};
  local::Answer answer;
  return local::ask(fd, question, nullptr, answer) < 0 ? -1 : 0;
}

/// RDS_CANCEL_SENT_TO; without an address: to all.
int cancel(int fd, const void* value, socklen_t length) {
  local::Head question{.ask = local::Ask::set_option, .option = kCancelSentTo};
  local::Answer answer;
  if (length != 0 &&
      !local::to_address(static_cast<const sockaddr*>(value), length, question.address))
    return -1;
  return local::ask(fd, question, nullptr, answer) < 0 ? -1 : 0;
}

/// RDS_GET_MR, RDS_GET_MR_FOR_DEST, RDS_FREE_MR.
int set_memory(int fd, int option, const void* value, socklen_t length) {
  std::uint64_t cookie = 0;
  if (option == kFreeMemory) {
    FreeMemory asked;
    if (length != sizeof asked) return fail(EINVAL);
    std::memcpy(&asked, value, sizeof asked);
    return end_grant(fd, asked.cookie);
  }
  const std::size_t before = option == kGetMemory ? 0 : sizeof GetMemoryForDestination::destination;
  GetMemory asked;
  if (length != before + sizeof asked) return fail(EINVAL);
  std::memcpy(&asked, static_cast<const char*>(value) + before, sizeof asked);
  return grant(fd, asked, cookie);
}

int get(int fd, std::int32_t option, std::uint64_t& value) {
  const local::Head question{.ask = local::Ask::get_option, .option = option};
  local::Answer answer;
  if (local::ask(fd, question, nullptr, answer) < 0) return -1;
  value = answer.value;
  return 0;
}

/// Options of SOL_SOCKET that the broker has; 0: the unix socket has them.
std::int32_t buffer_option(int option) {
  if (option == SO_SNDBUF || option == SO_SNDBUFFORCE) return local::kSendBuffer;
  if (option == SO_RCVBUF || option == SO_RCVBUFFORCE) return local::kReceiveBuffer;
  return 0;
}

int set_socket_option(int fd, int option, const void* value, socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(setsockopt);
  const std::int32_t buffer = buffer_option(option);
  if (buffer == 0) return plain(fd, SOL_SOCKET, option, value, length);
  int bytes = 0;
  if (length < sizeof bytes) return fail(EINVAL);
  std::memcpy(&bytes, value, sizeof bytes);
  return set(fd, buffer, static_cast<std::uint64_t>(std::max(bytes, 0)));
}

int put_int(int number, void* value, socklen_t* length) {
  if (*length < sizeof number) return fail(EINVAL);
  std::memcpy(value, &number, sizeof number);
  *length = sizeof number;
  return 0;
}

int get_socket_option(int fd, int option, void* value, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getsockopt);
  if (option == SO_DOMAIN) return put_int(local::kFamily, value, length);
  const std::int32_t buffer = buffer_option(option);
  std::uint64_t bytes = 0;
  if (buffer == 0) return plain(fd, SOL_SOCKET, option, value, length);
  if (get(fd, buffer, bytes) != 0) return -1;
  return put_int(static_cast<int>(2 * bytes), value, length);  // As Linux tells both.
}

/// The result is the length of an element; too little room: ENOSPC, and how much there should be.
int get_list(int fd, int option, void* value, socklen_t* length) {
  std::vector<char> bytes(local::kAnswerBytesMax);
  const local::Head question{.ask = local::Ask::info, .option = option};
  local::Answer answer;
  const ssize_t got = local::ask(fd, question, nullptr, answer, bytes.data(), bytes.size());
  if (got < 0) return -1;
  const bool has_room = static_cast<std::size_t>(got) <= *length;
  *length = static_cast<socklen_t>(got);
  if (!has_room) return fail(ENOSPC);
  std::memcpy(value, bytes.data(), static_cast<std::size_t>(got));
  return static_cast<int>(answer.value);
}

}  // namespace
}  // namespace verbatim::rdspreload

using namespace verbatim::rdspreload;  // NOLINT: a file of entry points.
namespace local = verbatim::ulp::rds::local;

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT int setsockopt(int fd, int level, int option, const void* value, socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(setsockopt);
  if (!is_rds(fd)) return plain(fd, level, option, value, length);
  if (level == SOL_SOCKET) return set_socket_option(fd, option, value, length);
  if (level != local::kLevel) return fail(ENOPROTOOPT);
  if (option == kCancelSentTo) return cancel(fd, value, length);
  if (option == kGetMemory || option == kFreeMemory || option == kGetMemoryForDestination)
    return set_memory(fd, option, value, length);
  int number = 0;
  if (length < sizeof number) return fail(EINVAL);
  std::memcpy(&number, value, sizeof number);
  return set(fd, option, static_cast<std::uint32_t>(number));
}

EXPORT int getsockopt(int fd, int level, int option, void* value, socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(getsockopt);
  if (!is_rds(fd)) return plain(fd, level, option, value, length);
  if (level == SOL_SOCKET) return get_socket_option(fd, option, value, length);
  if (level != local::kLevel) return fail(ENOPROTOOPT);
  if (option >= kFirstList && option <= kLastList) return get_list(fd, option, value, length);
  std::uint64_t got = 0;
  if (get(fd, option, got) != 0) return -1;
  return put_int(static_cast<int>(static_cast<std::uint32_t>(got)), value, length);
}

EXPORT int ioctl(int fd, unsigned long request, ...) {
  static auto* const plain = next<int(int, unsigned long, void*)>("ioctl");
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (!is_rds(fd) || (request != kSetTos && request != kGetTos))
    return plain(fd, request, argument);
  auto* const tos = static_cast<std::uint8_t*>(argument);
  if (request == kSetTos) return set(fd, local::kTypeOfService, *tos);
  std::uint64_t value = 0;
  if (get(fd, local::kTypeOfService, value) != 0) return -1;
  *tos = static_cast<std::uint8_t>(value);
  return 0;
}

}  // extern "C"
