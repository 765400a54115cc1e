#include "wire/subnet/link_speed.h"

#include <gtest/gtest.h>

namespace verbatim::wire {
namespace {

constexpr std::array kSpeeds{LinkSpeed::sdr, LinkSpeed::ddr, LinkSpeed::qdr, LinkSpeed::fdr,
                             LinkSpeed::edr, LinkSpeed::hdr, LinkSpeed::ndr, LinkSpeed::xdr};

TEST(LinkRate, IsTheSignallingLessItsCoding) {
  EXPECT_EQ(effective_rate_bps(LinkWidth::x1, LinkSpeed::sdr), 2'000'000'000u);
  EXPECT_EQ(effective_rate_bps(LinkWidth::x4, LinkSpeed::qdr), 32'000'000'000u);
  EXPECT_EQ(effective_rate_bps(LinkWidth::x4, LinkSpeed::fdr10), 40'000'000'000u);
  EXPECT_EQ(effective_rate_bps(LinkWidth::x4, LinkSpeed::fdr), 54'545'454'545u);
  EXPECT_EQ(effective_rate_bps(LinkWidth::x4, LinkSpeed::edr), 100'000'000'000u);
  EXPECT_EQ(effective_rate_bps(LinkWidth::x4, LinkSpeed::hdr), 200'000'000'000u);
  EXPECT_EQ(effective_rate_bps(LinkWidth::x2, LinkSpeed::ndr), 200'000'000'000u);
  EXPECT_EQ(effective_rate_bps(LinkWidth::x12, LinkSpeed::xdr), 2'400'000'000'000u);
}

TEST(LinkRate, OfACodeIsThatOfItsLinks) {
  for (const RateFacts& rate : kRates) EXPECT_GT(effective_rate_bps(rate.code), 0u);
  EXPECT_EQ(effective_rate_bps(RateCode{2}), 2'000'000'000u);
  EXPECT_EQ(effective_rate_bps(RateCode{7}), 32'000'000'000u);
  EXPECT_EQ(effective_rate_bps(RateCode{12}), 54'545'454'545u);
  EXPECT_EQ(effective_rate_bps(RateCode{20}), 50'000'000'000u);
  EXPECT_EQ(effective_rate_bps(RateCode{24}), 1'200'000'000'000u);
  EXPECT_EQ(effective_rate_bps(RateCode{0}), 0u);
}

TEST(LinkSpeed, PortInfoKeepsEachSpeed) {
  for (const LinkSpeed speed : kSpeeds) {
    PortInfo port;
    set_active_speed(port, speed);
    EXPECT_EQ(active_speed(port), speed);
  }
}

TEST(LinkSpeed, Fdr10ReadsAsQdrAndADownLinkAsNothing) {
  PortInfo port;
  EXPECT_EQ(active_speed(port), std::nullopt);
  set_active_speed(port, LinkSpeed::fdr10);
  EXPECT_EQ(active_speed(port), LinkSpeed::qdr);
}

TEST(LinkSpeed, AManagerThatDoesNotKnowASpeedReadsQdr) {
  PortInfo port;
  set_active_speed(port, LinkSpeed::ndr);
  EXPECT_EQ(port.speed_active, 4);
  EXPECT_EQ(port.speed_extended_active, 8);
}

TEST(LinkSpeed, SupportedAreAllUpToTheFastest) {
  PortInfo port;
  set_supported_speeds(port, LinkSpeed::hdr);
  EXPECT_EQ(port.speed_supported, 7);
  EXPECT_EQ(port.speed_extended_supported, 7);
  EXPECT_EQ(port.speed_extended2_supported, 0);
  set_supported_speeds(port, LinkSpeed::xdr);
  EXPECT_EQ(port.speed_extended_enabled, 15);
  EXPECT_EQ(port.speed_extended2_enabled, 1);
}

TEST(RateCode, IsTheNominalRateOfWidthAndSpeed) {
  for (const LinkSpeed speed : kSpeeds) {
    for (const LinkWidth width : kLinkWidths) {
      const auto code = rate_code(width, speed);
      if (!code) {
        EXPECT_EQ(speed, LinkSpeed::xdr);
        continue;
      }
      // Above QDR, rates are named by their data rate in whole Gb/s; DDR and SDR by the signalling
      // rate.
      const double nominal = static_cast<double>(mbps_of(*code));
      const double signalling =
          static_cast<double>(facts_of(speed).signalling_bps * lanes_of(width)) / 1e6;
      EXPECT_NEAR(nominal / signalling, speed >= LinkSpeed::edr ? 0.95 : 1.0, 0.06);
    }
  }
}

TEST(RateCode, KnownOnes) {
  EXPECT_EQ(rate_code(LinkWidth::x4, LinkSpeed::qdr), RateCode{7});
  EXPECT_EQ(mbps_of(RateCode{7}), 40'000u);
  EXPECT_EQ(mbps_of(*rate_code(LinkWidth::x4, LinkSpeed::hdr)), 200'000u);
  EXPECT_EQ(rate_code(LinkWidth::x12, LinkSpeed::xdr), std::nullopt);
  EXPECT_EQ(mbps_of(RateCode{0}), 0u);
}

}  // namespace
}  // namespace verbatim::wire
