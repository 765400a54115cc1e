#include <string>

#include <gtest/gtest.h>

#include "wire/hex_test_util.h"
#include "wire/mad/fields_test_util.h"
#include "wire/performance/class_port_info.h"
#include "wire/performance/counter_details.h"
#include "wire/performance/lane_counters.h"
#include "wire/performance/performance_packet.h"
#include "wire/performance/port_counters.h"
#include "wire/performance/port_samples.h"

namespace verbatim::wire {
namespace {

std::string zeros(std::size_t bytes) { return std::string(2 * bytes, '0'); }

template <typename T>
class PerformanceAttributes : public testing::Test {};
using All =
    testing::Types<ClassPortInfo, PortCounters, PortCountersExtended, PortReceiveErrorDetails,
                   PortTransmitDiscardDetails, PortOperationalReceiveCounters,
                   PortFlowControlCounters, PortVlOperationalPackets, PortVlOperationalData,
                   PortVlTransmitFlowControlUpdateErrors, PortVlTransmitWaitCounters,
                   SwitchPortVlCongestion, PortDataSl, PortSamplesControl>;
TYPED_TEST_SUITE(PerformanceAttributes, All);
TYPED_TEST(PerformanceAttributes, DecodeWhatTheyEncode) { expect_round_trip<TypeParam>(); }

PerformancePacket counters() {
  PerformancePacket packet{.method = MadMethod::get_response,
                           .transaction = 0x42,
                           .attribute = PerformanceAttribute::port_counters};
  set_data(packet, PortCounters{.port_select = 1,
                                .symbol_errors = 0x0102,
                                .local_link_integrity_errors = 3,
                                .excessive_buffer_overrun_errors = 4,
                                .transmit_data = 23472,
                                .receive_packets = 326,
                                .transmit_wait = 5});
  return packet;
}

TEST(PerformancePacket, GoldenBytes) {
  EXPECT_EQ(encoded_hex(counters()),
            "0104018100000000"
            "0000000000000042"
            "0012000000000000" +
                zeros(40) +
                "00010000"
                "01020000" +
                zeros(11) +
                "34"
                "00000000"
                "00005bb0"
                "00000000"
                "00000000"
                "00000146"
                "00000005" +
                zeros(148));
}

TEST(PerformancePacket, DecodesWhatItEncodes) {
  std::array<std::byte, PerformancePacket::kSize> bytes;
  encode(counters(), bytes);
  const auto packet = decode_performance_packet(bytes);
  ASSERT_EQ(packet, counters());
  EXPECT_EQ(data_as<PortCounters>(*packet).transmit_data, 23472u);
}

TEST(PerformancePacket, OtherLengthsVersionsAndClassesAreRefused) {
  std::array<std::byte, PerformancePacket::kSize> bytes;
  encode(counters(), bytes);
  EXPECT_EQ(decode_performance_packet(ByteSpan(bytes).first(24)).error(), WireError::mad_length);
  bytes[2] = std::byte{2};
  EXPECT_EQ(decode_performance_packet(bytes).error(), WireError::mad_class);
  bytes[2] = std::byte{1};
  bytes[1] = std::byte{3};
  EXPECT_EQ(decode_performance_packet(bytes).error(), WireError::mad_class);
}

TEST(PortCounters, SelectBitsAreInTheOrderOfTheCounters) {
  EXPECT_EQ(raw(CounterSelect::receive_errors), 0x0008);
  EXPECT_EQ(raw(CounterSelect::vl15_dropped), 0x0800);
  EXPECT_EQ(raw(CounterSelect::receive_packets), 0x8000);
}

}  // namespace
}  // namespace verbatim::wire
