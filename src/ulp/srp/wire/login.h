#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"

/// SRP's login, in the connection manager's private data. All numbers are big-endian; tags are
/// opaque.
namespace verbatim::ulp::srp {

/// An extension and a GUID, 8 bytes each.
using PortId = std::array<std::byte, 16>;
/// "0x" and 32 hexadecimal digits.
std::string text_of(const PortId& id);
/// Of 32 hexadecimal digits, with or without "0x".
std::optional<PortId> parse_port_id(std::string_view text);

/// Bits of `formats`, and of `flags`.
inline constexpr std::uint16_t kDirectFormat = 0x2, kIndirectFormat = 0x4;
inline constexpr std::uint8_t kActionMask = 0x3, kAnotherChannel = 0x1, kImmediateData = 0x80;
inline constexpr std::uint8_t kChannelsEnded = 0x1, kChannelsKept = 0x2;  // Of the response.

/// Where the request's fields are: rdma_cm leaves 56 bytes, the InfiniBand CM has room for 64.
enum class LoginForm : std::uint8_t { rdma_cm, infiniband_cm };

struct LoginRequest {
  std::uint64_t tag = 0;
  std::uint32_t request_bytes = 0;  // Of the longest information unit that the initiator sends.
  std::uint16_t formats = kDirectFormat | kIndirectFormat;
  std::uint8_t flags = 0;
  std::uint16_t immediate_offset = 0;
  PortId initiator{}, target{};
  friend bool operator==(const LoginRequest&, const LoginRequest&) = default;
};
/// None: too short, or no login.
std::optional<LoginRequest> decode_login(ByteSpan bytes, LoginForm form);
/// 56 or 64 bytes are used.
std::array<std::byte, 64> encode(const LoginRequest& request, LoginForm form);

struct LoginResponse {
  static constexpr std::size_t kSize = 52;
  std::int32_t request_limit = 0;  // A delta, from 0.
  std::uint64_t tag = 0;
  std::uint32_t request_bytes = 0, response_bytes = 0;
  std::uint16_t formats = kDirectFormat | kIndirectFormat;
  std::uint8_t flags = 0;
  friend bool operator==(const LoginResponse&, const LoginResponse&) = default;
};
std::array<std::byte, LoginResponse::kSize> encode(const LoginResponse& response);
std::optional<LoginResponse> decode_login_response(ByteSpan bytes);

enum class RejectReason : std::uint32_t {
  unable_to_establish = 0x10000,
  no_resources = 0x10001,
  request_too_long = 0x10002,  // Or too short.
  wrong_target_port = 0x10003,
  formats = 0x10004,
  no_multichannel = 0x10005,
  channel_limit = 0x10006,  // Linux's target says this, too, to whom it does not admit.
};
struct LoginReject {
  static constexpr std::size_t kSize = 32;
  RejectReason reason{};
  std::uint64_t tag = 0;
  std::uint16_t formats = kDirectFormat | kIndirectFormat;
  friend bool operator==(const LoginReject&, const LoginReject&) = default;
};
std::array<std::byte, LoginReject::kSize> encode(const LoginReject& reject);
std::optional<LoginReject> decode_login_reject(ByteSpan bytes);

}  // namespace verbatim::ulp::srp
