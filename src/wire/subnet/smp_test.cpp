#include "wire/subnet/smp.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/subnet/node.h"

namespace verbatim::wire {
namespace {

std::string zeros(std::size_t bytes) { return std::string(2 * bytes, '0'); }

Smp lid_routed() {
  Smp smp{.method = MadMethod::get_response,
          .status = MadStatus::invalid_value,
          .transaction = 0x1122334455667788,
          .attribute = SubnetAttribute::led_info,
          .modifier = 0x99aabbcc,
          .m_key = 0xddeeff0123456789};
  set_data(smp, LedInfo{.is_on = true});
  return smp;
}

Smp directed() {
  Smp smp = lid_routed();
  smp.route = DirectedRoute{.source_lid = Lid{5},
                            .destination_lid = Lid{6},
                            .is_returning = true,
                            .hop_pointer = 2,
                            .hop_count = 3,
                            .initial_path = {0, 1, 7, 4},
                            .return_path = {0, 9, 8}};
  return smp;
}

TEST(Smp, LidRoutedGoldenBytes) {
  EXPECT_EQ(encoded_hex(lid_routed()),
            "01010181001c0000112233445566778800310000"
            "99aabbcc"
            "ddeeff0123456789" +
                zeros(32) + "80000000" + zeros(60) + zeros(128));
}

TEST(Smp, DirectedRouteGoldenBytes) {
  EXPECT_EQ(encoded_hex(directed()),
            "01810181801c0203112233445566778800310000"
            "99aabbcc"
            "ddeeff0123456789"
            "00050006" +
                zeros(28) + "80000000" + zeros(60) + "00010704" + zeros(60) + "000908" + zeros(61));
}

TEST(Smp, DecodesWhatItEncodes) {
  for (const Smp& smp : {lid_routed(), directed()}) {
    std::array<std::byte, Smp::kSize> bytes;
    encode(smp, bytes);
    EXPECT_EQ(decode_smp(bytes), smp);
  }
}

TEST(Smp, OtherLengthsVersionsAndClassesAreRefused) {
  std::array<std::byte, Smp::kSize> bytes;
  encode(directed(), bytes);
  EXPECT_EQ(decode_smp(ByteSpan(bytes).first(255)).error(), WireError::mad_length);
  const auto error_with = [&](std::size_t at, int value) {
    auto changed = bytes;
    changed[at] = static_cast<std::byte>(value);
    return decode_smp(changed).error();
  };
  EXPECT_EQ(error_with(0, 2), WireError::mad_version);
  EXPECT_EQ(error_with(1, 3), WireError::mad_class);
  EXPECT_EQ(error_with(2, 2), WireError::mad_class);
}

TEST(Smp, HopsBeyondThePathLeadToPort0) {
  DirectedRoute route = *directed().route;
  EXPECT_TRUE(route.is_within_path());
  EXPECT_EQ(DirectedRoute::port_at(route.initial_path, 3), 4);
  EXPECT_EQ(DirectedRoute::port_at(route.initial_path, 64), 0);
  route.hop_pointer = 5;
  EXPECT_FALSE(route.is_within_path());
  route.hop_count = 64;
  EXPECT_FALSE(route.is_within_path());
}

}  // namespace
}  // namespace verbatim::wire
