#include "dropin/view/device.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace verbatim::view {
namespace {

constexpr std::uint32_t kDataMax = 64 << 10;
/// struct nvme_passthru_cmd, and the one with a result of 64 bits.
constexpr std::size_t kCommandBytes = 80, kAddressAt = 24, kLengthAt = 36, kDwordsAt = 40;
constexpr std::size_t kResultAt = 68, kResult64At = 72;
/// Calls whose numbers are not ioctls'.
constexpr std::uint32_t kRead = 0x5601, kWrite = 0x5602, kSeek = 0x5603, kFlush = 0x5604;
/// struct nvme_user_io, which says blocks where the command says bytes.
constexpr std::uint32_t kSubmitIo = 0x4e42, kIo = 0x4e43, kBlockBytes = 0x1268;

struct Request {
  std::uint32_t number = 0;  // Of an ioctl its type and number: 0x4e41.
  std::uint32_t data_bytes = 0;
  unsigned char command[kCommandBytes]{};
};
struct Answer {
  int code = EIO;
  int result = 0;
  std::uint64_t value = 0;
} __attribute__((packed));

template <typename Number>
Number load(const unsigned char* from) {
  Number value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename Number>
void store(unsigned char* to, Number value) {
  std::memcpy(to, &value, sizeof value);
}

int refuse(int code) {
  errno = code;
  return -1;
}

/// The kernel copies, which knows what is mapped: EFAULT. Where it may not, we do.
bool copy_in(void* to, const void* from, std::size_t size) {
  const iovec here{to, size}, there{const_cast<void*>(from), size};
  const auto copied = syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0);
  if (copied < 0 && errno != EFAULT) return std::memcpy(to, from, size), true;
  return copied == static_cast<long>(size);
}
bool copy_out(void* to, const void* from, std::size_t size) {
  const iovec here{const_cast<void*>(from), size}, there{to, size};
  const auto copied = syscall(SYS_process_vm_writev, getpid(), &here, 1, &there, 1, 0);
  if (copied < 0 && errno != EFAULT) return std::memcpy(to, from, size), true;
  return copied == static_cast<long>(size);
}

/// 0, or -1 and errno.
int exchange(int fd, Request& request, void* data, Answer& answer) {
  iovec out[] = {{&request, sizeof request}, {data, request.data_bytes}};
  msghdr message{};
  message.msg_iov = out;
  message.msg_iovlen = (request.command[0] & 1) != 0 ? 2 : 1;
  if (syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL) < 0)
    return errno == EFAULT ? -1 : refuse(EIO);
  iovec in[] = {{&answer, sizeof answer}, {data, request.data_bytes}};
  message.msg_iov = in;
  const auto receive = [&](int flags) {
    long got = 0;
    do {
      got = syscall(SYS_recvmsg, fd, &message, flags);
    } while (got < 0 && errno == EINTR);
    return got;
  };
  // Waits first: an address that can never be the program's is refused before the answer is there.
  message.msg_iovlen = 1;
  if (receive(MSG_PEEK) < 0) return refuse(EIO);
  message.msg_iovlen = (request.command[0] & 2) != 0 ? 2 : 1;
  const long got = receive(0);
  if (got < 0 && errno == EFAULT) {
    message.msg_iovlen = 1;
    receive(MSG_DONTWAIT);  // What was not copied is no answer to the next request.
    return refuse(EFAULT);
  }
  if (got < static_cast<long>(sizeof answer.code)) return refuse(EIO);
  return answer.code == 0 ? 0 : refuse(answer.code);
}

int control_nvme(int fd, unsigned long request, unsigned char* argument) {
  const std::size_t size = _IOC_SIZE(request);
  Request asked{};
  asked.number = request & 0xffff;
  void* data = nullptr;
  if (size > kCommandBytes) return refuse(ENOTTY);
  if (size != 0) {
    if (!copy_in(asked.command, argument, size)) return refuse(EFAULT);
    data = reinterpret_cast<void*>(load<std::uint64_t>(asked.command + kAddressAt));
    asked.data_bytes = load<std::uint32_t>(asked.command + kLengthAt);
  }
  if (asked.data_bytes > kDataMax) return refuse(EINVAL);
  Answer answer;
  if (exchange(fd, asked, data, answer) != 0) return -1;
  bool is_told = true;
  if (size == kCommandBytes) is_told = copy_out(argument + kResult64At, &answer.value, 8);
  if (size > kResultAt && size < kCommandBytes)
    is_told = copy_out(argument + kResultAt, &answer.value, 4);
  return is_told ? answer.result : refuse(EFAULT);
}

/// Read, Write and Compare alone, as Linux.
int submit_io(int fd, const unsigned char* argument) {
  unsigned char io[48];
  if (!copy_in(io, argument, sizeof io)) return refuse(EFAULT);
  Request block{};
  block.number = kBlockBytes;
  Answer answer;
  if (exchange(fd, block, nullptr, answer) != 0) return -1;
  const std::uint32_t blocks = load<std::uint16_t>(io + 4) + 1u;
  const std::uint64_t bytes = blocks * answer.value;
  const unsigned char opcode = io[0];
  if (opcode != 1 && opcode != 2 && opcode != 5) return refuse(EINVAL);
  if (bytes > kDataMax) return refuse(EINVAL);
  Request id{};
  id.number = 0x4e40;
  if (exchange(fd, id, nullptr, answer) != 0) return -1;
  Request asked{};
  asked.number = kIo;
  asked.data_bytes = static_cast<std::uint32_t>(bytes);
  asked.command[0] = opcode;
  asked.command[1] = io[1];
  store(asked.command + 4, static_cast<std::uint32_t>(answer.result));
  std::memcpy(asked.command + kDwordsAt, io + 24, 8);        // The first block.
  std::memcpy(asked.command + kDwordsAt + 8, io + 4, 2);     // How many.
  std::memcpy(asked.command + kDwordsAt + 10, io + 2, 2);    // Control.
  std::memcpy(asked.command + kDwordsAt + 12, io + 32, 12);  // Hints, and tags of protection.
  void* const data = reinterpret_cast<void*>(load<std::uint64_t>(io + 16));
  return exchange(fd, asked, data, answer) == 0 ? answer.result : -1;
}

/// Ioctls of block devices that write a number.
struct Asked {
  unsigned long request;
  std::size_t bytes;
};
constexpr Asked kAsked[] = {{BLKGETSIZE64, 8},  {BLKGETSIZE, sizeof(long)},
                            {BLKSSZGET, 4},     {BLKBSZGET, 4},
                            {BLKPBSZGET, 4},    {BLKIOMIN, 4},
                            {BLKIOOPT, 4},      {BLKROGET, 4},
                            {BLKALIGNOFF, 4},   {BLKDISCARDZEROES, 4},
                            {BLKROTATIONAL, 2}, {BLKFLSBUF, 0}};

/// BLKDISCARD and BLKZEROOUT: where, and how many bytes. One call clears what a command can.
int clear_range(int fd, unsigned long request, const void* argument) {
  std::uint64_t range[2];
  if (!copy_in(range, argument, sizeof range)) return refuse(EFAULT);
  do {
    Request asked{};
    asked.number = request & 0xffff;
    std::memcpy(asked.command + kDwordsAt, range, sizeof range);
    Answer answer;
    if (exchange(fd, asked, nullptr, answer) != 0) return -1;
    if (answer.value == 0 || answer.value > range[1]) return refuse(EIO);
    range[0] += answer.value;
    range[1] -= answer.value;
  } while (range[1] != 0);
  return 0;
}

/// BLKBSZSET: the size of the page cache's blocks, which we do not have. Checked alone.
int set_page_bytes(int fd, const void* argument) {
  Request asked{};
  asked.number = BLKBSZSET & 0xffff;
  if (!copy_in(asked.command + kDwordsAt, argument, sizeof(int))) return refuse(EFAULT);
  Answer answer;
  return exchange(fd, asked, nullptr, answer);
}

int control_block(int fd, unsigned long request, void* argument) {
  if (request == BLKDISCARD || request == BLKZEROOUT) return clear_range(fd, request, argument);
  if (request == BLKBSZSET) return set_page_bytes(fd, argument);
  if (request == BLKSECDISCARD) return refuse(EOPNOTSUPP);
  const auto* const row = std::ranges::find(kAsked, request, &Asked::request);
  if (row == std::end(kAsked)) return refuse(ENOTTY);
  Request asked{};
  asked.number = request & 0xffff;
  Answer answer;
  if (exchange(fd, asked, nullptr, answer) != 0) return -1;
  const std::uint64_t value = answer.value;
  return row->bytes == 0 || copy_out(argument, &value, row->bytes) ? 0 : refuse(EFAULT);
}

/// One call moves what a command can; the whole is cut into such.
ssize_t move(int fd, std::uint32_t number, void* bytes, std::size_t size, off_t offset) {
  std::size_t moved = 0;
  if (offset < kAtPosition) return refuse(EINVAL);
  do {
    Request asked{};
    asked.number = number;
    asked.data_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(size - moved, kDataMax));
    asked.command[0] = number == kRead ? 2 : 1;
    const bool is_at_position = offset == kAtPosition;
    store(asked.command + kDwordsAt, is_at_position ? 0 : offset + static_cast<off_t>(moved));
    store(asked.command + kDwordsAt + 8, std::uint32_t{is_at_position});
    Answer answer;
    if (exchange(fd, asked, static_cast<char*>(bytes) + moved, answer) != 0)
      return moved == 0 ? -1 : static_cast<ssize_t>(moved);
    if (answer.result <= 0) break;
    moved += static_cast<std::size_t>(answer.result);
  } while (moved < size);
  return static_cast<ssize_t>(moved);
}

}  // namespace

int control_device(int fd, unsigned long request, void* argument) {
  if (_IOC_TYPE(request) == 0x12) return control_block(fd, request, argument);
  if (_IOC_TYPE(request) != 'N') return refuse(ENOTTY);
  auto* const bytes = static_cast<unsigned char*>(argument);
  return (request & 0xffff) == kSubmitIo ? submit_io(fd, bytes) : control_nvme(fd, request, bytes);
}

ssize_t read_device(int fd, void* bytes, std::size_t size, off_t offset) {
  return move(fd, kRead, bytes, size, offset);
}

ssize_t write_device(int fd, const void* bytes, std::size_t size, off_t offset) {
  return move(fd, kWrite, const_cast<void*>(bytes), size, offset);
}

off_t seek_device(int fd, off_t offset, int whence) {
  Request asked{};
  asked.number = kSeek;
  store(asked.command + kDwordsAt, offset);
  store(asked.command + kDwordsAt + 8, whence);
  Answer answer;
  return exchange(fd, asked, nullptr, answer) == 0 ? static_cast<off_t>(answer.value) : -1;
}

int flush_device(int fd) {
  Request asked{};
  asked.number = kFlush;
  Answer answer;
  return exchange(fd, asked, nullptr, answer);
}

}  // namespace verbatim::view
