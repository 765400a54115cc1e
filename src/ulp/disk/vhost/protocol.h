#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/inplace_vector.h"

/// Messages of vhost-user (QEMU, docs/interop/vhost-user.rst), in the machine's byte order. Pure
/// functions: whatever the bytes are, nothing outside of them is read.
namespace verbatim::ulp::disk::vhost {

enum class Request : std::uint32_t {
  get_features = 1,
  set_features = 2,
  set_owner = 3,
  reset_owner = 4,
  set_mem_table = 5,
  set_vring_num = 8,
  set_vring_addr = 9,
  set_vring_base = 10,
  get_vring_base = 11,
  set_vring_kick = 12,
  set_vring_call = 13,
  set_vring_err = 14,
  get_protocol_features = 15,
  set_protocol_features = 16,
  get_queue_num = 17,
  set_vring_enable = 18,
  get_config = 24,
  set_config = 25,
};

inline constexpr std::uint64_t kProtocolFeatures = 1ULL << 30;  // Among the device's features.
inline constexpr std::uint64_t kReplyAck = 1ULL << 3, kConfig = 1ULL << 9;
inline constexpr std::uint64_t kOurProtocolFeatures = kReplyAck | kConfig;

inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::size_t kRegionsMax = 8;
inline constexpr std::size_t kConfigBytesMax = 256;
inline constexpr std::size_t kPayloadBytesMax = 8 + kRegionsMax * 32;
static_assert(kPayloadBytesMax < 12 + kConfigBytesMax + 1);  // GET_CONFIG's is the longest.
inline constexpr std::size_t kMessageBytesMax = kHeaderBytes + 12 + kConfigBytesMax;

struct Header {
  Request request{};
  bool needs_reply = false;
  std::uint32_t bytes = 0;  // Of the payload.
};

struct VringState {
  std::uint32_t index = 0, number = 0;
};
struct VringAddress {
  std::uint32_t index = 0, flags = 0;
  std::uint64_t descriptors = 0, used = 0, available = 0;  // Of the frontend's memory.
};
struct MemoryRegion {
  std::uint64_t guest = 0, bytes = 0, user = 0, offset = 0;
};
using MemoryTable = InplaceVector<MemoryRegion, kRegionsMax>;
struct ConfigAccess {
  std::uint32_t offset = 0, bytes = 0, flags = 0;
};

struct Message {
  Header header;
  std::variant<std::monostate, std::uint64_t, VringState, VringAddress, MemoryTable, ConfigAccess>
      body;
};

using Bytes = std::vector<std::byte>;

/// EPROTO: not of version 1, a reply, or longer than any message.
Result<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes);
/// `payload`: as many bytes as the header says. EOPNOTSUPP: a request that is not known; EPROTO.
Result<Message> decode(const Header& header, ByteSpan payload);

Bytes encode_reply(Request request, ByteSpan payload);
Bytes encode_reply(Request request, std::uint64_t value);
Bytes encode_reply(Request request, const VringState& state);
/// `config`: the bytes that were asked for.
Bytes encode_reply(Request request, const ConfigAccess& access, ByteSpan config);

}  // namespace verbatim::ulp::disk::vhost
