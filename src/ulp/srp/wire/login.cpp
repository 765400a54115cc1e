#include "ulp/srp/wire/login.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "ulp/srp/wire/message.h"

namespace verbatim::ulp::srp {
namespace {

/// Offsets of the request's fields.
struct LoginFields {
  std::size_t bytes, tag, formats, flags, opcode, request_bytes, initiator, target, immediate;
};
constexpr LoginFields fields_of(LoginForm form) {
  if (form == LoginForm::rdma_cm) return {56, 0, 8, 10, 11, 12, 16, 32, 48};
  return {64, 8, 24, 26, 0, 16, 32, 48, 28};
}

}  // namespace

std::string text_of(const PortId& id) {
  return fmt::format("0x{:016x}{:016x}", load_be<std::uint64_t>(id.data()),
                     load_be<std::uint64_t>(&id[8]));
}

std::optional<PortId> parse_port_id(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  if (text.size() != 32) return std::nullopt;
  PortId id{};
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint64_t value = 0;
    const char* const from = text.data() + 16 * half;
    const auto [end, error] = std::from_chars(from, from + 16, value, 16);
    if (error != std::errc{} || end != from + 16) return std::nullopt;
    store_be(&id[8 * half], value);
  }
  return id;
}

std::optional<LoginRequest> decode_login(ByteSpan bytes, LoginForm form) {
  const LoginFields at = fields_of(form);
  if (bytes.size() < at.bytes || bytes[at.opcode] != std::byte{raw(Opcode::login_request)})
    return std::nullopt;
  LoginRequest out{.tag = load_be<std::uint64_t>(&bytes[at.tag]),
                   .request_bytes = load_be<std::uint32_t>(&bytes[at.request_bytes]),
                   .formats = load_be<std::uint16_t>(&bytes[at.formats]),
                   .flags = std::to_integer<std::uint8_t>(bytes[at.flags]),
                   .immediate_offset = load_be<std::uint16_t>(&bytes[at.immediate])};
  std::ranges::copy(bytes.subspan(at.initiator, 16), out.initiator.begin());
  std::ranges::copy(bytes.subspan(at.target, 16), out.target.begin());
  return out;
}

std::array<std::byte, 64> encode(const LoginRequest& request, LoginForm form) {
  const LoginFields at = fields_of(form);
  std::array<std::byte, 64> out{};
  out[at.opcode] = std::byte{raw(Opcode::login_request)};
  out[at.flags] = std::byte{request.flags};
  store_be(&out[at.tag], request.tag);
  store_be(&out[at.request_bytes], request.request_bytes);
  store_be(&out[at.formats], request.formats);
  store_be(&out[at.immediate], request.immediate_offset);
  std::ranges::copy(request.initiator, &out[at.initiator]);
  std::ranges::copy(request.target, &out[at.target]);
  return out;
}

std::array<std::byte, LoginResponse::kSize> encode(const LoginResponse& response) {
  std::array<std::byte, LoginResponse::kSize> out{};
  out[0] = std::byte{raw(Opcode::login_response)};
  store_be(&out[4], static_cast<std::uint32_t>(response.request_limit));
  store_be(&out[8], response.tag);
  store_be(&out[16], response.request_bytes);
  store_be(&out[20], response.response_bytes);
  store_be(&out[24], response.formats);
  out[26] = std::byte{response.flags};
  return out;
}

std::optional<LoginResponse> decode_login_response(ByteSpan bytes) {
  if (opcode_of(bytes) != Opcode::login_response || bytes.size() < LoginResponse::kSize)
    return std::nullopt;
  return LoginResponse{
      .request_limit = static_cast<std::int32_t>(load_be<std::uint32_t>(&bytes[4])),
      .tag = load_be<std::uint64_t>(&bytes[8]),
      .request_bytes = load_be<std::uint32_t>(&bytes[16]),
      .response_bytes = load_be<std::uint32_t>(&bytes[20]),
      .formats = load_be<std::uint16_t>(&bytes[24]),
      .flags = std::to_integer<std::uint8_t>(bytes[26])};
}

std::array<std::byte, LoginReject::kSize> encode(const LoginReject& reject) {
  std::array<std::byte, LoginReject::kSize> out{};
  out[0] = std::byte{raw(Opcode::login_reject)};
  store_be(&out[4], raw(reject.reason));
  store_be(&out[8], reject.tag);
  store_be(&out[24], reject.formats);
  return out;
}

std::optional<LoginReject> decode_login_reject(ByteSpan bytes) {
  if (opcode_of(bytes) != Opcode::login_reject || bytes.size() < LoginReject::kSize)
    return std::nullopt;
  return LoginReject{.reason = RejectReason{load_be<std::uint32_t>(&bytes[4])},
                     .tag = load_be<std::uint64_t>(&bytes[8]),
                     .formats = load_be<std::uint16_t>(&bytes[24])};
}

}  // namespace verbatim::ulp::srp
