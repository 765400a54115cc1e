#include "ulp/nvmeof/wire/connect.h"

#include <algorithm>

namespace verbatim::ulp::nvmeof {
namespace {

std::string decode_nqn(ByteSpan bytes) {
  const auto end = std::ranges::find(bytes, std::byte{});
  if (end == bytes.end() || end - bytes.begin() > static_cast<std::ptrdiff_t>(kNqnMax)) return {};
  return {reinterpret_cast<const char*>(bytes.data()),
          static_cast<std::size_t>(end - bytes.begin())};
}

void encode_nqn(const std::string& nqn, std::byte* out) {
  std::ranges::copy(std::as_bytes(std::span(nqn)).first(std::min(nqn.size(), kNqnMax)), out);
}

}  // namespace

std::expected<QueueRequest, WireError> decode_queue_request(ByteSpan bytes) {
  if (bytes.size() < QueueRequest::kSize) return std::unexpected(WireError::too_short);
  return QueueRequest{.format = load_le<std::uint16_t>(&bytes[0]),
                      .queue_id = load_le<std::uint16_t>(&bytes[2]),
                      .receives = load_le<std::uint16_t>(&bytes[4]),
                      .commands = load_le<std::uint16_t>(&bytes[6]) + 1u};
}

PrivateData encode(const QueueRequest& request) {
  std::array<std::byte, QueueRequest::kSize> out{};
  store_le(&out[0], request.format);
  store_le(&out[2], request.queue_id);
  store_le(&out[4], request.receives);
  store_le(&out[6], static_cast<std::uint16_t>(request.commands - 1));
  return to_private_data(out);
}

PrivateData encode_queue_reply(std::uint16_t receives) {
  std::array<std::byte, QueueRequest::kSize> out{};
  store_le(&out[2], receives);
  return to_private_data(out);
}

PrivateData encode(QueueRejection rejection) {
  std::array<std::byte, 4> out{};
  store_le(&out[2], raw(rejection));
  return to_private_data(out);
}

QueueRejection decode_queue_rejection(ByteSpan bytes) {
  if (bytes.size() < 4) return QueueRejection::none;
  return static_cast<QueueRejection>(load_le<std::uint16_t>(&bytes[2]));
}

FabricsType fabrics_type(const AdminCommand& command) {
  return static_cast<FabricsType>(command.namespace_id & 0xff);
}

ConnectCommand connect_of(const AdminCommand& command) {
  return {.format = static_cast<std::uint16_t>(command.dword(10)),
          .queue_id = static_cast<std::uint16_t>(command.dword(10) >> 16),
          .commands = (command.dword(11) & 0xffff) + 1,
          .keep_alive_ms = command.dword(12)};
}

void put_connect(const ConnectCommand& connect, AdminCommand& command) {
  command.opcode = AdminOpcode::fabrics;
  command.namespace_id = raw(FabricsType::connect);
  command.dwords = {std::uint32_t{connect.queue_id} << 16 | connect.format,
                    (connect.commands - 1) & 0xffff, connect.keep_alive_ms};
}

std::expected<ConnectData, WireError> decode_connect_data(ByteSpan bytes) {
  if (bytes.size() < ConnectData::kSize) return std::unexpected(WireError::too_short);
  ConnectData data{.controller_id = load_le<std::uint16_t>(&bytes[ConnectData::kControllerAt]),
                   .subsystem = decode_nqn(bytes.subspan(ConnectData::kSubsystemAt, 256)),
                   .host = decode_nqn(bytes.subspan(ConnectData::kHostAt, 256))};
  std::ranges::copy(bytes.first<16>(), data.host_id.begin());
  return data;
}

void encode(const ConnectData& data, std::span<std::byte, ConnectData::kSize> out) {
  std::ranges::fill(out, std::byte{});
  std::ranges::copy(data.host_id, out.begin());
  store_le(&out[ConnectData::kControllerAt], data.controller_id);
  encode_nqn(data.subsystem, &out[ConnectData::kSubsystemAt]);
  encode_nqn(data.host, &out[ConnectData::kHostAt]);
}

PropertyAccess property_of(const AdminCommand& command) {
  return {.property = static_cast<Property>(command.dword(11)),
          .is_8_bytes = (command.dword(10) & 7) == 1,
          .value = command.dwords_64(12)};
}

void put_property(FabricsType type, const PropertyAccess& access, AdminCommand& command) {
  command.opcode = AdminOpcode::fabrics;
  command.namespace_id = raw(type);
  command.dwords = {access.is_8_bytes ? 1u : 0u, raw(access.property),
                    static_cast<std::uint32_t>(access.value),
                    static_cast<std::uint32_t>(access.value >> 32)};
}

}  // namespace verbatim::ulp::nvmeof
