#include "ulp/rpcrdma/wire/rpc.h"

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr std::uint32_t kRpcVersion = 2;
constexpr std::uint32_t kGss = 6;                        // RPCSEC_GSS, RFC 2203.
constexpr std::uint32_t kGssData = 0, kServiceNone = 1;  // A procedure and a service of it.
constexpr std::uint32_t kAccepted = 0, kSuccess = 0, kSystemError = 5;

}  // namespace

std::optional<RpcCall> read_call(XdrReader& reader) {
  RpcCall call;
  call.xid = reader.word();
  if (reader.word() != raw(MessageType::call) || reader.word() != kRpcVersion) return std::nullopt;
  call.program = reader.word();
  call.version = reader.word();
  call.procedure = reader.word();
  if (reader.word() == kGss) {
    XdrReader credential = reader;
    credential.skip(8);  // Its length and version.
    const bool is_data = credential.word() == kGssData;
    credential.word();  // The sequence number.
    call.is_protected = !is_data || credential.word() != kServiceNone;
  }
  reader.opaque();  // The credential's body.
  reader.word();    // The verifier.
  reader.opaque();
  return reader.is_ok() ? std::optional(call) : std::nullopt;
}

bool read_reply(XdrReader& reader) {
  reader.word();
  if (reader.word() != raw(MessageType::reply) || reader.word() != kAccepted) return false;
  reader.word();  // The verifier.
  reader.opaque();
  return reader.word() == kSuccess && reader.is_ok();
}

std::optional<MessageHead> read_head(std::span<const Slice> message) {
  XdrReader reader(message);
  const std::uint32_t xid = reader.word();
  const auto type = MessageType{reader.word()};
  if (!reader.is_ok() || raw(type) > 1) return std::nullopt;
  return MessageHead{xid, type};
}

std::array<std::byte, 24> system_error(std::uint32_t xid) {
  std::array<std::byte, 24> out{};
  const std::uint32_t words[] = {xid, raw(MessageType::reply), kAccepted, 0, 0, kSystemError};
  for (std::size_t i = 0; i < std::size(words); ++i) store_be(out.data() + 4 * i, words[i]);
  return out;
}

}  // namespace verbatim::ulp::rpcrdma
