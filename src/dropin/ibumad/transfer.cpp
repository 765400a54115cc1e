#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <span>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cancellation/cancellation_point.h"
#include "base/os/passed_descriptors.h"
#include "dropin/ibumad/host.h"
#include "dropin/ibumad/umad.h"
#include "dropin/ibverbs/refusal.h"

/// Datagrams from and to the program's buffers.
namespace verbatim::ibumad {
namespace {

/// What a buffer that is too small gets of its datagram.
constexpr std::size_t kFirstBytes = 256;
/// A program whose fabric has ended may try again at once, for ever, and log each failure.
constexpr int kPauseMs = 500;

protocol::MadAddress to_record(const ib_mad_addr_t& address) {
  protocol::MadAddress record;
  record.qpn = be32toh(address.qpn);
  record.qkey = be32toh(address.qkey);
  record.lid = be16toh(address.lid);
  record.pkey_index = address.pkey_index;
  record.flow_label = be32toh(address.flow_label);
  std::ranges::copy(address.gid, record.gid.begin());
  record.service_level = address.sl & 15;
  record.path_bits = address.path_bits;
  record.has_grh = address.grh_present != 0 ? 1 : 0;
  record.gid_index = address.gid_index;
  record.hop_limit = address.hop_limit;
  record.traffic_class = address.traffic_class;
  return record;
}

ib_mad_addr_t from_record(const protocol::MadAddress& record) {
  ib_mad_addr_t address{};
  address.qpn = htobe32(record.qpn);
  address.qkey = htobe32(record.qkey);
  address.lid = htobe16(record.lid);
  address.pkey_index = record.pkey_index;
  address.flow_label = htobe32(record.flow_label);
  std::ranges::copy(record.gid, address.gid);
  address.sl = record.service_level;
  address.path_bits = record.path_bits;
  address.grh_present = record.has_grh;
  address.gid_index = record.gid_index;
  address.hop_limit = record.hop_limit;
  address.traffic_class = record.traffic_class;
  return address;
}

void put_header(ib_user_mad& out, const protocol::MadRecord& record) {
  out.agent_id = record.agent;
  out.status = record.status;
  out.timeout_ms = record.timeout_ms;
  out.retries = record.retries;
  out.length = static_cast<std::uint32_t>(umad_size()) + record.length;
  out.addr = from_record(record.address);
}

/// Into a head and a body. A descriptor that comes beside it is owned by `descriptor`. Returns -1
/// and sets errno if there is no message.
ssize_t receive(int fd, protocol::ReceivedMad& head, std::span<std::byte> body, int flags,
                UniqueFd& descriptor) {
  const std::array<iovec, 2> pieces{iovec{&head, sizeof head}, iovec{body.data(), body.size()}};
  const auto got = receive_message(fd, pieces, {&descriptor, 1}, flags | MSG_DONTWAIT);
  return got ? static_cast<ssize_t>(got->bytes) : -1;
}

int fail(int code) {
  errno = code;
  return -code;
}

/// One datagram, if it is there. One that is longer than the buffer stays where it is.
int take(int fd, ib_user_mad& out, int& length) {
  static std::mutex
      lock;  // Between the look at a datagram and its receipt no other thread takes it.
  const std::lock_guard guard(lock);
  const auto room = std::span(reinterpret_cast<std::byte*>(out.data),
                              static_cast<std::size_t>(std::max(length, 0)));
  protocol::ReceivedMad head;
  UniqueFd memfd;
  const ssize_t seen = receive(fd, head, room, MSG_PEEK, memfd);
  if (seen < 0) return fail(errno == EAGAIN || errno == EWOULDBLOCK ? EAGAIN : EIO);
  if (seen == 0) return fail(EIO);  // The daemon has gone.
  if (seen < static_cast<ssize_t>(sizeof head) || head.header.type != head.kType) {
    receive(fd, head, {}, 0, memfd);
    return fail(EIO);
  }
  const std::uint32_t size = head.record.length;
  const bool is_long = size > protocol::kInlineBytes;
  const bool fits = size <= room.size();
  const std::size_t wanted = fits ? size : std::min(room.size(), kFirstBytes);
  put_header(out, head.record);
  if (is_long && pread(memfd.get(), room.data(), wanted, 0) < 0) return fail(EIO);
  length = static_cast<int>(size);
  if (!fits) return fail(ENOSPC);
  receive(fd, head, {}, 0, memfd);
  return static_cast<int>(head.record.agent);
}

/// Of a device that is gone.
int fail_later(int code) {
  cancellable_poll(nullptr, 0, kPauseMs);
  return fail(code);
}

}  // namespace

/// Waits until a datagram is there: 0, -ETIMEDOUT, or -EIO with errno set. A thread may be
/// cancelled here, and is unwound without running C++ destructors: there are none on its stack.
static int wait_for_datagram(int fd, int timeout_ms) {
  pollfd waiting{fd, POLLIN, 0};
  const int count = cancellable_poll(&waiting, 1, timeout_ms);
  if (count == 0) return fail(ETIMEDOUT);
  if (count < 0) return -EIO;
  if ((waiting.revents & POLLIN) != 0 && (waiting.revents & POLLHUP) == 0) return 0;
  // What the daemon had sent before it went is still to be read.
  if ((waiting.revents & POLLIN) != 0) {
    char first = 0;
    if (recv(fd, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT) > 0) return 0;
  }
  return fail_later(EIO);
}

}  // namespace verbatim::ibumad

using namespace verbatim;

extern "C" {

int umad_poll(int portid, int timeout_ms) {
  const int waited = ibumad::wait_for_datagram(portid, timeout_ms);
  return waited == 0 || waited == -ETIMEDOUT ? waited : -EIO;
}

int umad_recv(int portid, void* umad, int* length, int timeout_ms) {
  if (timeout_ms != 0) {
    if (const int waited = ibumad::wait_for_datagram(portid, timeout_ms); waited != 0) {
      return waited;
    }
  }
  const int taken = ibumad::take(portid, *static_cast<ib_user_mad*>(umad), *length);
  // A program that waits with poll(2) sees such a device readable for ever.
  return taken == -EIO ? ibumad::fail_later(EIO) : taken;
}

int umad_send(int portid, int agentid, void* umad, int length, int timeout_ms, int retries) {
  auto& mad = *static_cast<ib_user_mad*>(umad);
  mad.agent_id = static_cast<uint32_t>(agentid);
  mad.timeout_ms = static_cast<uint32_t>(timeout_ms);
  mad.retries = static_cast<uint32_t>(retries);
  using namespace fabric::protocol;
  const bool fits = length >= static_cast<int>(kMadBytesMin) &&
                    static_cast<std::uint32_t>(length) <= kMadBytesMax;
  if (!fits || mad.agent_id >= kAgentsMax) {
    errno = EINVAL;
    return -EIO;
  }
  SentMad message;
  message.record = {.agent = mad.agent_id,
                    .status = 0,
                    .timeout_ms = mad.timeout_ms,
                    .retries = mad.retries,
                    .length = static_cast<std::uint32_t>(length),
                    .address = ibumad::to_record(mad.addr)};
  const ByteSpan datagram(reinterpret_cast<const std::byte*>(mad.data), message.record.length);
  if (auto sent = send_mad(portid, message, datagram); !sent) {
    errno = dropin::refused("umad_send", sent.error());
    return -EIO;
  }
  return 0;
}

}  // extern "C"
