#include "ulp/initiator/nvme/device_request.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::ulp::initiator {
namespace {

/// As src/dropin/view/device.cpp sends it.
std::vector<std::byte> message(std::uint8_t opcode, std::uint32_t data_bytes, std::size_t sent) {
  std::vector<std::byte> bytes(88 + sent);
  const std::uint32_t number = 0x4e41, space = 7, dword10 = 0x1234;
  std::memcpy(bytes.data(), &number, 4);
  std::memcpy(&bytes[4], &data_bytes, 4);
  bytes[8] = std::byte{opcode};
  std::memcpy(&bytes[8 + 4], &space, 4);
  std::memcpy(&bytes[8 + 40], &dword10, 4);
  return bytes;
}

TEST(DeviceRequest, IsDecodedByDirection) {
  const auto read = decode_device_request(message(0x06, 4096, 0));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->call, DeviceCall::admin);
  EXPECT_EQ(read->command.opcode, nvmeof::AdminOpcode::identify);
  EXPECT_EQ(read->command.namespace_id, 7u);
  EXPECT_EQ(read->command.dword(10), 0x1234u);
  EXPECT_TRUE(read->is_from_device);
  EXPECT_FALSE(read->is_to_device);
  const auto write = decode_device_request(message(0x09, 16, 16));
  ASSERT_TRUE(write);
  EXPECT_TRUE(write->is_to_device);
  EXPECT_EQ(write->data.size(), 16u);
}

TEST(DeviceRequest, LengthsThatDoNotFitAreRefused) {
  EXPECT_FALSE(decode_device_request({}));
  EXPECT_FALSE(decode_device_request(ByteSpan(message(0x06, 0, 0)).first(87)));
  EXPECT_FALSE(decode_device_request(message(0x06, 4096, 1)));
  EXPECT_FALSE(decode_device_request(message(0x09, 16, 15)));
  EXPECT_FALSE(decode_device_request(message(0x06, (64 << 10) + 1, 0)));
  auto fused = message(0x06, 0, 0);
  fused[9] = std::byte{1};
  EXPECT_FALSE(decode_device_request(fused));
}

}  // namespace
}  // namespace verbatim::ulp::initiator
