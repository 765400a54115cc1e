#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <netinet/in.h>

#include "base/os/liveness.h"

/// Between a program's RDS socket and the node's broker: packets of a SOCK_SEQPACKET socket of this
/// machine, in its own byte order. The socket is the program's descriptor, so that poll, dup, fork
/// and exec are the kernel's; all that belongs to it is the broker's. What comes for a program lies
/// in its inbox (inbox.h), and its socket is readable while it does.
namespace verbatim::ulp::rds::local {

inline constexpr std::uint32_t kMagic = 0x56724406;  // With the version of this file.
/// To the broker, longer messages lie in a file beside the packet: one of 1 MiB fits into no
/// socket.
inline constexpr std::uint32_t kInlineBytesMax = 128 << 10;
inline constexpr std::uint32_t kAnswerBytesMax = 128 << 10;
inline constexpr int kLevel = 276;  // SOL_RDS
inline constexpr int kFamily = 21;  // AF_RDS

enum class Kind : std::uint16_t {
  message = 1,
  message_in_file,  // A descriptor beside it.
  question,         // A socket beside it, for the answer.
  congestion,       // To programs: `value` says which ports are congested no more.
  notice,           // To programs: the operation `value` (its token) is over, status `option`.
  bell,             // To programs: the inbox has something. To brokers: ring it for socket `value`
                    // (0: for this one).
  room,             // To brokers: the inbox has room again.
};

enum class Ask : std::uint16_t {
  bind = 1,     // Answer: the address.
  connect,      // AF_UNSPEC: nowhere.
  own_name,     //
  peer_name,    // ENOTCONN
  may_send,     // `value` not 0: the answer comes when it may.
  set_option,   // `option`, and `value`.
  get_option,   //
  info,         // `option`: RDS_INFO_*. Answer: `value` bytes in each element, and the elements.
  shared_page,  // Answer: a descriptor, to be mapped (`SharedPage`).
  inbox,        // Answer: the inbox of the socket that is bound at `address`, and `value`, its
                // number; ENOENT. Without an address: this socket's.
  source_for,   // Which of the node's addresses speaks with this one.
  transmit,     // `Transmission`: a message of `value` bytes, in a file beside it, if any.
  grant,        // `Grant`, and the file beside it. Answer: `value` is the cookie.
  end_grant,    // `value`: a cookie.
};

/// What a message may bring along. Bits of `Head::brings`.
enum Brings : std::uint32_t { kOffer = 1, kUsedKey = 2 };
/// Of `set_option` and `get_option`, beside SOL_RDS's own.
inline constexpr std::int32_t kSendBuffer = -1;
inline constexpr std::int32_t kReceiveBuffer = -2;
inline constexpr std::int32_t kTypeOfService = -3;

/// IPv4 or IPv6; the family is 0 if there is none.
union Address {
  sockaddr any;
  sockaddr_in ipv4;
  sockaddr_in6 ipv6;
};

/// Begins each packet; the data follow.
struct Head {
  std::uint32_t magic = kMagic;
  Kind kind{};
  Ask ask{};
  std::uint32_t bytes = 0;  // Of the message, or of what follows a question.
  std::int32_t option = 0;
  std::uint64_t value = 0;
  Address address{.ipv6 = {}};  // Of the peer; none: where the socket is connected to.
  std::uint32_t brings = 0;
  std::uint32_t used_key = 0;  // The peer has used memory with this key.
  std::uint32_t rest = 0;
  std::uint64_t cookie = 0;  // Memory that the peer offers.
};

/// Bytes of a program's memory.
struct Piece {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
inline constexpr std::size_t kOperationsMax = 2;
inline constexpr std::size_t kLocalPiecesMax = 1024;  // UIO_MAXIOV

enum OperationFlag : std::uint32_t { kFenced = 1, kTellsSuccess = 2 };
/// A READ, a WRITE or an atomic operation; `pieces` of those that follow all of them are its own.
struct OperationRecord {
  std::uint32_t kind = 0;  // `Operation::Kind`
  std::uint32_t flags = 0;
  std::uint32_t key = 0;
  std::uint32_t pieces = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t value = 0, compare = 0;
  std::uint64_t token = 0;
};
/// Begins what follows the question `transmit`; then its operations, then all pieces.
struct Transmission {
  std::uint32_t operations = 0;
  std::uint32_t pieces = 0;
  std::uint64_t offered = 0;  // A cookie that `grant` has returned; 0: none.
  std::uint32_t is_silent = 0;
  std::uint32_t rest = 0;
};

/// Memory that a program has put into a file which cannot shrink.
struct Grant {
  std::uint64_t offset = 0;  // Of the first byte in the file.
  std::uint64_t bytes = 0;
  std::uint32_t is_written = 0;  // Peers may write.
  std::uint32_t is_once = 0;     // It ends when a peer says that it has used it.
};
/// A cookie: the key, and where in its first page the memory begins. Addresses of peers begin
/// there.
constexpr std::uint64_t cookie_of(std::uint32_t key, std::uint32_t offset) {
  return std::uint64_t{offset} << 32 | key;
}

/// To a question.
struct Answer {
  std::uint32_t magic = kMagic;
  std::int32_t error = 0;  // An errno value.
  std::uint64_t value = 0;
  Address address{.ipv6 = {}};
};

/// Where the broker of an address is found, beside all brokers' sockets: a symbolic link.
inline constexpr const char* kAddressPrefix = "rds+";

/// Read by programs, which cannot write to it.
struct SharedPage {
  Liveness broker;                          // Held by the broker's thread.
  std::atomic<std::uint32_t> is_congested;  // Not 0: a port of somebody is. Ask before you send.
  std::atomic<std::uint32_t> is_shared;     // Programs may use each other's inboxes.
};

}  // namespace verbatim::ulp::rds::local
