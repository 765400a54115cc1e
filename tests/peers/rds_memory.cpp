// RDMA operations of RDS sockets, for Linux's rds_rdma and for ours. It has no other library than
// libc.
//
//   rds_memory use ADDRESS PORT COUNT            READs and WRITEs memory that requests offer
//   rds_memory lend ADDRESS PEER PORT COUNT BYTES offers it, and checks what has become of it
//   rds_memory add ADDRESS PEER PORT COUNT       offers a number, to which 'use' adds
//   rds_memory wrong ADDRESS PEER PORT           uses a key that nobody has granted
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

constexpr int kFamily = 21, kLevel = 276;                                         // AF_RDS, SOL_RDS
constexpr int kArguments = 1, kDestination = 2, kMap = 3, kStatus = 4, kAdd = 6;  // RDS_CMSG_*
constexpr int kFreeMemory = 3, kErrors = 5;  // RDS_FREE_MR, RDS_RECVERR
constexpr std::uint64_t kWrites = 1, kFence = 2, kOnce = 8, kTells = 32;  // RDS_RDMA_*

struct Iovec {
  std::uint64_t address, bytes;
};
struct Map {
  Iovec memory;
  std::uint64_t cookie_address, flags;
};
struct Arguments {
  std::uint64_t cookie;
  Iovec remote;
  std::uint64_t local, count, flags, token;
};
struct Atomic {
  std::uint64_t cookie, local, remote, operands[4], flags, token;
};
struct Free {
  std::uint64_t cookie, flags;
};
struct Notice {
  std::uint64_t token;
  std::int32_t status;
};
enum class What : std::uint32_t { read, write, add };
struct Request {
  What what;
  std::uint32_t seed;
  std::uint64_t bytes;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "rds_memory: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in at(const char* address, const char* port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, address, &to.sin_addr) != 1) fail(address);
  return to;
}

int open_socket(const char* address, const char* port) {
  const int fd = socket(kFamily, SOCK_SEQPACKET, 0);
  if (fd < 0) fail("socket");
  const timeval patience{60, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const sockaddr_in own = at(address, port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) fail("bind");
  return fd;
}

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

unsigned char byte_at(std::uint32_t seed, std::size_t i) {
  return static_cast<unsigned char>(seed * 31 + i * 7 + i / 4096);
}
void fill(unsigned char* memory, std::size_t bytes, std::uint32_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = byte_at(seed, i);
}
void check(const unsigned char* memory, std::size_t bytes, std::uint32_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (memory[i] == byte_at(seed, i)) continue;
    std::fprintf(stderr, "rds_memory: byte %zu of %zu is wrong, seed %u\n", i, bytes, seed);
    std::exit(1);
  }
}

template <typename Control>
bool send(int fd, const sockaddr_in& to, const Request& request, int type, const Control& control) {
  iovec piece{const_cast<Request*>(&request), sizeof request};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof control)] = {};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_in*>(&to);
  message.msg_namelen = sizeof to;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  *header = {.cmsg_len = CMSG_LEN(sizeof control), .cmsg_level = kLevel, .cmsg_type = type};
  std::memcpy(CMSG_DATA(header), &control, sizeof control);
  // Linux grants memory only while its connection is up: EAGAIN.
  for (int tries = 0; tries < 6000; ++tries) {
    const ssize_t sent = sendmsg(fd, &message, 0);
    if (sent >= 0 || errno != EAGAIN) return sent == static_cast<ssize_t>(sizeof request);
    usleep(10'000);
  }
  return false;
}

struct Received {
  sockaddr_in from{};
  std::optional<Request> request;
  std::optional<std::uint64_t> cookie;
  std::optional<Notice> notice;
};
Received receive(int fd) {
  Received received;
  Request request;
  iovec piece{&request, sizeof request};
  alignas(cmsghdr) char room[256];
  msghdr message{};
  message.msg_name = &received.from;
  message.msg_namelen = sizeof received.from;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  const ssize_t got = recvmsg(fd, &message, 0);
  if (got < 0) fail("recvmsg");
  if (got == sizeof request) received.request = request;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != kLevel) return received;
  if (header->cmsg_type == kDestination)
    std::memcpy(&received.cookie.emplace(), CMSG_DATA(header), sizeof(std::uint64_t));
  if (header->cmsg_type == kStatus)
    std::memcpy(&received.notice.emplace(), CMSG_DATA(header), sizeof(Notice));
  return received;
}

/// Requests that came before a notice: the peer has the message that follows an operation as soon
/// as it has arrived, and the adapter may wait for a lost acknowledgement.
std::deque<Received> early;

void expect_notice(int fd, std::uint64_t token, std::int32_t status) {
  Received received = receive(fd);
  for (; received.request; received = receive(fd)) early.push_back(received);
  if (!received.notice || received.notice->token != token || received.notice->status != status) {
    std::fprintf(stderr, "rds_memory: no notice of %llu, or its status is %d\n",
                 static_cast<unsigned long long>(token),
                 received.notice ? received.notice->status : -1);
    std::exit(1);
  }
}

Received next_request(int fd) {
  if (early.empty()) return receive(fd);
  const Received first = early.front();
  early.pop_front();
  return first;
}

void serve_one(int fd, std::uint64_t token) {
  const Received received = next_request(fd);
  if (!received.request || !received.cookie) fail("a request without memory");
  const Request& asked = *received.request;
  if (asked.what == What::add) {
    std::uint64_t old = 0;
    const Atomic add{.cookie = *received.cookie,
                     .local = address_of(&old),
                     .operands = {5},
                     .flags = kTells,
                     .token = token};
    if (!send(fd, received.from, asked, kAdd, add)) fail("an atomic operation");
    expect_notice(fd, token, 0);
    if (old != asked.seed) fail("the number before");
    return;
  }
  // In two pieces, the second of which begins at an odd address.
  std::vector<unsigned char> memory(asked.bytes + 3);
  const std::size_t half = asked.bytes / 2;
  const Iovec pieces[2] = {{address_of(memory.data()), half},
                           {address_of(memory.data() + half + 3), asked.bytes - half}};
  const bool writes = asked.what == What::write;
  if (writes) {
    fill(memory.data(), asked.bytes, asked.seed + 1);
    std::memmove(memory.data() + half + 3, memory.data() + half, asked.bytes - half);
  }
  const Arguments arguments{.cookie = *received.cookie,
                            .remote = {0, asked.bytes},
                            .local = address_of(pieces),
                            .count = 2,
                            .flags = kTells | (writes ? kWrites : kFence),
                            .token = token};
  if (!send(fd, received.from, asked, kArguments, arguments)) fail("RDS_CMSG_RDMA_ARGS");
  expect_notice(fd, token, 0);
  if (writes) return;
  std::memmove(memory.data() + half, memory.data() + half + 3, asked.bytes - half);
  check(memory.data(), asked.bytes, asked.seed);
}

/// Each begins at another place of its first page; half of them end by themselves.
void lend(int fd, const sockaddr_in& to, std::uint32_t count, std::size_t bytes) {
  void* const room =
      mmap(nullptr, bytes + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) fail("mmap");
  for (std::uint32_t i = 0; i < count; ++i) {
    auto* const memory = static_cast<unsigned char*>(room) + 24 * i % 4096;
    const bool is_once = i / 2 % 2 == 0;
    fill(memory, bytes, i);
    std::uint64_t cookie = 0;
    const Map map{.memory = {address_of(memory), bytes},
                  .cookie_address = address_of(&cookie),
                  .flags = kWrites | (is_once ? kOnce : 0)};
    const Request request{i % 2 == 0 ? What::read : What::write, i, bytes};
    if (!send(fd, to, request, kMap, map)) fail("RDS_CMSG_RDMA_MAP");
    if (!receive(fd).request) fail("no answer");
    check(memory, bytes, request.what == What::write ? i + 1 : i);
    const Free end{.cookie = cookie, .flags = 0};
    const bool ended = setsockopt(fd, kLevel, kFreeMemory, &end, sizeof end) == 0;
    if (ended == is_once) fail(is_once ? "memory lent once is there" : "RDS_FREE_MR");
  }
  std::printf("lent %u x %zu\n", count, bytes);
}

void add(int fd, const sockaddr_in& to, std::uint32_t count) {
  void* const room =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* const number = static_cast<volatile std::uint64_t*>(room);
  *number = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Map map{.memory = {address_of(room), 8}, .cookie_address = 0, .flags = kWrites | kOnce};
    const Request request{What::add, static_cast<std::uint32_t>(*number), 8};
    if (!send(fd, to, request, kMap, map)) fail("RDS_CMSG_RDMA_MAP");
    if (!receive(fd).request) fail("no answer");
  }
  if (*number != 5 * count) fail("the sum");
}

/// The peer's adapter refuses: the socket is told, and later messages are not lost.
void use_wrong_key(int fd, const sockaddr_in& to) {
  const int on = 1;
  if (setsockopt(fd, kLevel, kErrors, &on, sizeof on) != 0) fail("RDS_RECVERR");
  std::vector<unsigned char> memory(100);
  const Iovec piece{address_of(memory.data()), memory.size()};
  const Arguments arguments{.cookie = 0x12345,
                            .remote = {0, memory.size()},
                            .local = address_of(&piece),
                            .count = 1,
                            .flags = kWrites | kTells,
                            .token = 9};
  if (!send(fd, to, {}, kArguments, arguments)) fail("RDS_CMSG_RDMA_ARGS");
  expect_notice(fd, 9, 1);
  lend(fd, to, 2, 1000);
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "use" && count == 5) {
    const int fd = open_socket(words[2], words[3]);
    std::printf("uses\n");
    std::fflush(stdout);
    for (int i = 0; i < std::atoi(words[4]); ++i) serve_one(fd, static_cast<std::uint64_t>(i + 1));
    return 0;
  }
  if (count < 5) return 2;
  const int fd = open_socket(words[2], "0");
  const sockaddr_in to = at(words[3], words[4]);
  if (what == "lend" && count == 7) {
    lend(fd, to, static_cast<std::uint32_t>(std::atoi(words[5])),
         static_cast<std::size_t>(std::atol(words[6])));
  } else if (what == "add" && count == 6) {
    add(fd, to, static_cast<std::uint32_t>(std::atoi(words[5])));
  } else if (what == "wrong") {
    use_wrong_key(fd, to);
  } else {
    return 2;
  }
  return 0;
}
