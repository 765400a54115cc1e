#include "dropin/rdspreload/transmission.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include <unistd.h>

#include "base/os/peer_copies.h"
#include "dropin/rdspreload/granted_memory.h"
#include "dropin/rdspreload/linux_rds.h"
#include "ulp/rds/local/client.h"

namespace verbatim::rdspreload {
namespace {

namespace local = ulp::rds::local;

constexpr std::uint64_t kBytesMax = 1 << 20;
enum OperationKind : std::uint32_t { kWrite, kRead, kAdd, kSwap };

/// What a message brings along. The pieces of an atomic operation come first, as it does.
struct Parts {
  std::vector<local::OperationRecord> atomics, moves;
  std::vector<local::Piece> atomic_pieces, pieces;
  std::uint64_t offered = 0;
  bool all_silent = true;
};

std::uint32_t flags_of(std::uint64_t flags, bool fences) {
  return ((flags & kFence) != 0 && fences ? local::kFenced : 0u) |
         ((flags & kNotifyMe) != 0 ? local::kTellsSuccess : 0u);
}

template <typename Value>
bool read(const cmsghdr& from, Value& value) {
  if (from.cmsg_len < CMSG_LEN(sizeof value)) return false;
  std::memcpy(&value, CMSG_DATA(&from), sizeof value);
  return true;
}

/// Errors are numbers of errno.
int add_move(const cmsghdr& one, Parts& parts) {
  RdmaArguments arguments;
  if (!parts.moves.empty() || !read(one, arguments) || arguments.local_count == 0) return EINVAL;
  if (arguments.local_count > local::kLocalPiecesMax) return EMSGSIZE;
  const auto* const local = reinterpret_cast<const RdsIovec*>(arguments.local_address);  // NOLINT
  std::uint64_t bytes = 0;
  for (const RdsIovec& piece : std::span(local, arguments.local_count)) {
    if (piece.bytes > kBytesMax) return EMSGSIZE;
    parts.pieces.push_back({piece.address, piece.bytes});
    bytes += piece.bytes;
  }
  if (bytes > arguments.remote.bytes) return EINVAL;
  if (arguments.remote.bytes > kBytesMax) return EMSGSIZE;
  const bool is_write = (arguments.flags & kReadWrite) != 0;
  parts.all_silent &= (arguments.flags & kSilent) != 0;
  parts.moves.push_back({.kind = is_write ? kWrite : kRead,
                         .flags = flags_of(arguments.flags, !is_write),
                         .key = static_cast<std::uint32_t>(arguments.cookie),
                         .pieces = static_cast<std::uint32_t>(arguments.local_count),
                         .address = arguments.remote.address + (arguments.cookie >> 32),
                         .bytes = bytes,
                         .token = arguments.token});
  return 0;
}

/// Verbs have no masks: those that cover all bits are taken, others are EOPNOTSUPP.
int add_atomic(const cmsghdr& one, Parts& parts) {
  AtomicArguments arguments;
  if (!parts.atomics.empty() || !read(one, arguments)) return EINVAL;
  if (arguments.local_address % 8 != 0) return EFAULT;
  const std::uint64_t* const operands = arguments.operands;
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  if (one.cmsg_type == kMaskedFetchAndAdd && operands[1] != 0) return EOPNOTSUPP;
  if (one.cmsg_type == kMaskedCompareAndSwap && (operands[2] != kAll || operands[3] != kAll))
    return EOPNOTSUPP;
  const bool adds = one.cmsg_type == kFetchAndAdd || one.cmsg_type == kMaskedFetchAndAdd;
  parts.all_silent &= (arguments.flags & kSilent) != 0;
  parts.atomic_pieces.push_back({arguments.local_address, 8});
  parts.atomics.push_back({.kind = adds ? kAdd : kSwap,
                           .flags = flags_of(arguments.flags, true),
                           .key = static_cast<std::uint32_t>(arguments.cookie),
                           .pieces = 1,
                           .address = arguments.remote_address + (arguments.cookie >> 32),
                           .bytes = 8,
                           .value = adds ? operands[0] : operands[1],
                           .compare = adds ? 0 : operands[0],
                           .token = arguments.token});
  return 0;
}

int add(int fd, const cmsghdr& one, Parts& parts) {
  switch (one.cmsg_type) {
    case kRdmaArguments:
      return add_move(one, parts);
    case kRdmaDestination:
      return parts.offered != 0 || !read(one, parts.offered) || parts.offered == 0 ? EINVAL : 0;
    case kRdmaMap: {
      GetMemory asked;
      if (parts.offered != 0 || !read(one, asked)) return EINVAL;
      return grant(fd, asked, parts.offered) < 0 ? errno : 0;
    }
    case kFetchAndAdd:
    case kCompareAndSwap:
    case kMaskedFetchAndAdd:
    case kMaskedCompareAndSwap:
      return add_atomic(one, parts);
    default:
      return EINVAL;
  }
}

template <typename Value>
void append(std::vector<char>& to, std::span<const Value> values) {
  const auto* const bytes = reinterpret_cast<const char*>(values.data());
  to.insert(to.end(), bytes, bytes + values.size_bytes());
}

std::vector<char> encoded(const Parts& parts) {
  const local::Transmission head{
      .operations = static_cast<std::uint32_t>(parts.atomics.size() + parts.moves.size()),
      .pieces = static_cast<std::uint32_t>(parts.atomic_pieces.size() + parts.pieces.size()),
      .offered = parts.offered,
      .is_silent = parts.all_silent && parts.offered == 0};
  std::vector<char> bytes;
  append(bytes, std::span(&head, 1));
  append(bytes, std::span(parts.atomics));
  append(bytes, std::span(parts.moves));
  append(bytes, std::span(parts.atomic_pieces));
  append(bytes, std::span(parts.pieces));
  return bytes;
}

}  // namespace

bool has_operations(const msghdr& message) {
  for (const cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr;
       one = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(one))) {
    if (one->cmsg_level == local::kLevel) return true;
  }
  return false;
}

ssize_t transmit(int fd, const msghdr& message, const local::Address& to, std::size_t length) {
  Parts parts;
  for (const cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr;
       one = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(one))) {
    const int error = one->cmsg_level == local::kLevel ? add(fd, *one, parts) : 0;
    if (error != 0) {
      errno = error;
      return -1;
    }
  }
  static const bool may_copy = (let_peers_copy(), true);  // The broker does, for operations.
  static_cast<void>(may_copy);
  const std::vector<char> bytes = encoded(parts);
  const int file = length == 0 ? -1 : local::file_of(message.msg_iov, message.msg_iovlen);
  if (length != 0 && file < 0) return -1;
  const local::Head question{.ask = local::Ask::transmit,
                             .bytes = static_cast<std::uint32_t>(bytes.size()),
                             .value = length,
                             .address = to};
  local::Answer answer;
  const ssize_t sent = local::ask(fd, question, bytes.data(), answer, nullptr, 0, nullptr, file);
  const int error = errno;
  if (file >= 0) local::calls().close(file);
  errno = error;
  return sent < 0 ? -1 : static_cast<ssize_t>(length);
}

}  // namespace verbatim::rdspreload
