#include "ulp/initiator/nvme/device_request.h"

namespace verbatim::ulp::initiator {

std::optional<DeviceRequest> decode_device_request(ByteSpan message) {
  constexpr std::size_t kCommandAt = 8, kCommandBytes = 80, kDataAt = kCommandAt + kCommandBytes;
  constexpr std::size_t kSpaceAt = 4, kDwordsAt = 40;
  if (message.size() < kDataAt) return {};
  const auto word = [&](std::size_t at) { return load_le<std::uint32_t>(&message[at]); };
  DeviceRequest request{.call = DeviceCall{word(0)}, .data_bytes = word(4)};
  if (message[kCommandAt + 1] != std::byte{}) return {};  // Flags: fused commands, and the like.
  const ByteSpan command = message.subspan(kCommandAt, kCommandBytes);
  const auto opcode = std::to_integer<std::uint8_t>(command[0]);
  request.is_to_device = (opcode & 1) != 0;
  request.is_from_device = (opcode & 2) != 0;
  request.command.opcode = nvmeof::AdminOpcode{opcode};
  request.command.namespace_id = load_le<std::uint32_t>(&command[kSpaceAt]);
  for (std::size_t i = 0; i < request.command.dwords.size(); ++i)
    request.command.dwords[i] = load_le<std::uint32_t>(&command[kDwordsAt + 4 * i]);
  request.data = message.subspan(kDataAt);
  const std::size_t expected = request.is_to_device ? request.data_bytes : 0;
  if (request.data_bytes > DeviceRequest::kDataBytesMax || request.data.size() != expected)
    return {};
  return request;
}

}  // namespace verbatim::ulp::initiator
