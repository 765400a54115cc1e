#include "wire/ib/aeth.h"

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"

namespace verbatim::wire {
namespace {

std::expected<Aeth, WireError> decoded(std::string_view hex) {
  const auto bytes = from_hex(hex);
  return decode_aeth(std::span<const std::byte, Aeth::kSize>(bytes.data(), Aeth::kSize));
}

TEST(Aeth, GoldenBytes) {
  EXPECT_EQ(encoded_hex(Aeth{.syndrome = Syndrome::ack(), .msn = Msn(0x123456)}), "1f123456");
  EXPECT_EQ(encoded_hex(Aeth{.syndrome = Syndrome::ack(4), .msn = Msn(1)}), "04000001");
  EXPECT_EQ(encoded_hex(Aeth{.syndrome = Syndrome::rnr_nak(14), .msn = Msn(2)}), "2e000002");
  EXPECT_EQ(encoded_hex(Aeth{.syndrome = Syndrome::nak(NakCode::remote_access_error)}), "62000000");
}

TEST(Aeth, EveryValidSyndromeSurvivesTheRoundTrip) {
  int valid = 0;
  for (unsigned bits = 0; bits < 128; ++bits) {
    const auto syndrome = Syndrome::from_wire(static_cast<std::uint8_t>(bits));
    if (!syndrome) continue;
    ++valid;
    EXPECT_EQ(syndrome->to_wire(), bits);
  }
  EXPECT_EQ(valid, 32 + 32 + 5);
}

TEST(Aeth, KindsAreToldApart) {
  const auto rnr = decoded("2e000002")->syndrome;
  EXPECT_TRUE(rnr.is_rnr_nak());
  EXPECT_FALSE(rnr.is_ack() || rnr.is_nak());
  EXPECT_EQ(rnr.rnr_timer_code(), 14);
  const auto nak = decoded("61000000")->syndrome;
  EXPECT_TRUE(nak.is_nak());
  EXPECT_EQ(nak.nak_code(), NakCode::invalid_request);
  EXPECT_EQ(decoded("04ffffff")->syndrome.credit_count(), 4);
  EXPECT_EQ(decoded("04ffffff")->msn, Msn(0xffffff));
}

TEST(Aeth, ReservedBitIsIgnored) { EXPECT_EQ(decoded("9f000001"), decoded("1f000001")); }

TEST(Aeth, ReservedSyndromesAreRefused) {
  for (const char* hex : {"40000000", "5f000000", "65000000", "7f000000"}) {
    const auto aeth = decoded(hex);
    ASSERT_FALSE(aeth.has_value()) << hex;
    EXPECT_EQ(aeth.error(), WireError::reserved_syndrome);
  }
}

TEST(Aeth, Table45_RnrTimers) {
  EXPECT_EQ(Syndrome::rnr_nak(0).rnr_timer_ns(), 655'360'000u);
  EXPECT_EQ(Syndrome::rnr_nak(1).rnr_timer_ns(), 10'000u);
  EXPECT_EQ(Syndrome::rnr_nak(12).rnr_timer_ns(), 640'000u);
  EXPECT_EQ(Syndrome::rnr_nak(22).rnr_timer_ns(), 20'480'000u);
  EXPECT_EQ(Syndrome::rnr_nak(31).rnr_timer_ns(), 491'520'000u);
  for (std::size_t code = 2; code < 32; ++code) {
    EXPECT_GT(kRnrTimerNs[code], kRnrTimerNs[code - 1]) << code;
  }
}

TEST(Aeth, MsnWraps) { EXPECT_EQ(Msn(0xffffff) + 2, Msn(1)); }

}  // namespace
}  // namespace verbatim::wire
