#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <netinet/in.h>

/// Between a program's RDS socket and the node's broker: packets of a SOCK_SEQPACKET socket of this
/// machine, in its own byte order. The socket is the program's descriptor, so that poll, dup, fork
/// and exec are the kernel's; all that belongs to it is the broker's.
namespace verbatim::ulp::rds::local {

inline constexpr std::uint32_t kMagic = 0x56724402;  // With the version of this file.
/// Longer messages lie in a file beside the packet: one of 1 MiB fits into no socket.
inline constexpr std::uint32_t kInlineBytesMax = 128 << 10;
inline constexpr std::uint32_t kAnswerBytesMax = 128 << 10;
inline constexpr int kLevel = 276;  // SOL_RDS
inline constexpr int kFamily = 21;  // AF_RDS

enum class Kind : std::uint16_t {
  message = 1,
  message_in_file,  // A descriptor beside it.
  question,         // A socket beside it, for the answer.
  congestion,       // To programs: `value` says which ports are congested no more.
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
  source_for,   // Which of the node's addresses speaks with this one.
};
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
};

/// To a question.
struct Answer {
  std::uint32_t magic = kMagic;
  std::int32_t error = 0;  // An errno value.
  std::uint64_t value = 0;
  Address address{.ipv6 = {}};
};

/// Read by programs.
struct SharedPage {
  std::atomic<std::uint32_t> is_congested;  // Not 0: a port of somebody is. Ask before you send.
};

}  // namespace verbatim::ulp::rds::local
