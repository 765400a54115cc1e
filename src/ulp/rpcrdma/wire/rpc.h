#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "ulp/rpcrdma/wire/xdr.h"

/// Heads of RPC messages (RFC 5531), and the mark of a record over TCP.
namespace verbatim::ulp::rpcrdma {

enum class MessageType : std::uint32_t { call = 0, reply = 1 };

/// What a call is, as far as moving its data needs to know.
struct RpcCall {
  std::uint32_t xid = 0;
  std::uint32_t program = 0, version = 0, procedure = 0;
  /// RPCSEC_GSS with integrity or privacy: nothing of the message may be moved apart from it, and
  /// nobody but its ends can read it (RFC 8166, section 4.2.1).
  bool is_protected = false;
  friend bool operator==(const RpcCall&, const RpcCall&) = default;
};

/// Leaves the reader at the arguments. None: no call, or cut off.
std::optional<RpcCall> read_call(XdrReader& reader);
/// Leaves the reader at the results. False: the call was denied or not accepted, or it is cut off.
bool read_reply(XdrReader& reader);

/// Of the first 8 bytes of a message.
struct MessageHead {
  std::uint32_t xid = 0;
  MessageType type{};
};
std::optional<MessageHead> read_head(std::span<const Slice> message);

/// A record over TCP is a list of fragments; a mark before each has its length, and the top bit in
/// the last one's.
inline constexpr std::uint32_t kLastFragment = 0x80000000;
inline std::array<std::byte, 4> record_mark(std::uint32_t bytes) {
  std::array<std::byte, 4> mark;
  store_be(mark.data(), kLastFragment | bytes);
  return mark;
}

/// A reply that was accepted, but ended in SYSTEM_ERR: for a call that RDMA could not carry.
std::array<std::byte, 24> system_error(std::uint32_t xid);

}  // namespace verbatim::ulp::rpcrdma
