#include "mad/pma/performance_agent.h"

#include <map>

#include <gtest/gtest.h>

#include "wire/performance/class_port_info.h"
#include "wire/performance/port_samples.h"

namespace verbatim::mad {
namespace {

using wire::MadMethod;
using wire::MadStatus;
using wire::PerformanceAttribute;
using wire::PerformancePacket;
using wire::PortCounters;
using wire::PortCountersExtended;

class Counts final : public PortCounterSource {
 public:
  std::map<std::uint8_t, PortCounterValues> ports;
  PortCounterValues counters(std::uint8_t port) const override {
    const auto found = ports.find(port);
    return found == ports.end() ? PortCounterValues{} : found->second;
  }
};

class PerformanceAgentTest : public testing::Test {
 protected:
  template <typename T>
  PerformancePacket ask(MadMethod method, PerformanceAttribute attribute, const T& value) {
    PerformancePacket packet{.method = method, .attribute = attribute};
    set_data(packet, value);
    EXPECT_TRUE(agent.on_packet(packet));
    EXPECT_EQ(packet.method, MadMethod::get_response);
    return packet;
  }
  PortCounters get(std::uint8_t port) {
    return wire::data_as<PortCounters>(ask(MadMethod::get, PerformanceAttribute::port_counters,
                                           PortCounters{.port_select = port}));
  }
  PortCountersExtended get_extended(std::uint8_t port) {
    return wire::data_as<PortCountersExtended>(ask(MadMethod::get,
                                                   PerformanceAttribute::port_counters_extended,
                                                   PortCountersExtended{.port_select = port}));
  }

  Counts counts;
  PerformanceAgent agent{0, 4, counts};
};

TEST_F(PerformanceAgentTest, ShortCountersStayAtTheirMaximum) {
  counts.ports[1].transmit_data = 0x1'0000'0005;
  counts.ports[1].link_downed = 300;
  counts.ports[1].local_link_integrity_errors = 17;
  EXPECT_EQ(get(1).transmit_data, 0xffff'ffffu);
  EXPECT_EQ(get(1).link_downed, 255);
  EXPECT_EQ(get(1).local_link_integrity_errors, 15);
  EXPECT_EQ(get_extended(1).transmit_data, 0x1'0000'0005u);
}

TEST_F(PerformanceAgentTest, SetWritesTheSelectedCountersOnly) {
  counts.ports[2] = {.transmit_data = 100, .receive_data = 200, .symbol_errors = 5};
  const auto packet = ask(MadMethod::set, PerformanceAttribute::port_counters,
                          PortCounters{.port_select = 2,
                                       .counter_select = raw(wire::CounterSelect::transmit_data) |
                                                         raw(wire::CounterSelect::symbol_errors),
                                       .symbol_errors = 3});
  EXPECT_EQ(wire::data_as<PortCounters>(packet).transmit_data, 0u);
  counts.ports[2].transmit_data += 7;
  EXPECT_EQ(get(2).transmit_data, 7u);
  EXPECT_EQ(get(2).receive_data, 200u);
  EXPECT_EQ(get(2).symbol_errors, 3u);
  EXPECT_EQ(get_extended(2).transmit_data, 107u);  // Those have a Set of their own.
}

TEST_F(PerformanceAgentTest, Port255IsTheSumOfAllPorts) {
  counts.ports[0].receive_packets = 1;
  counts.ports[3].receive_packets = 2;
  counts.ports[4].receive_packets = 4;
  counts.ports[4].link_downed = 200;
  counts.ports[3].link_downed = 100;
  EXPECT_EQ(get(255).receive_packets, 7u);
  EXPECT_EQ(get(255).link_downed, 255);
  ask(MadMethod::set, PerformanceAttribute::port_counters,
      PortCounters{.port_select = 255, .counter_select = 0xffff});
  EXPECT_EQ(get(255).receive_packets, 0u);
  EXPECT_EQ(get(4).receive_packets, 0u);
}

TEST_F(PerformanceAgentTest, SumsOfErrorsAreResetApartFromTheirDetails) {
  counts.ports[1].malformed_packets = 2;
  counts.ports[1].buffer_overruns = 3;
  EXPECT_EQ(get(1).receive_errors, 5);
  ask(MadMethod::set, PerformanceAttribute::port_counters,
      PortCounters{.port_select = 1, .counter_select = raw(wire::CounterSelect::receive_errors)});
  EXPECT_EQ(get(1).receive_errors, 0);
  const auto details = wire::data_as<wire::PortReceiveErrorDetails>(
      ask(MadMethod::get, PerformanceAttribute::port_receive_error_details,
          wire::PortReceiveErrorDetails{.port_select = 1}));
  EXPECT_EQ(details.malformed_packets, 2);
  EXPECT_EQ(details.buffer_overruns, 3);
}

TEST_F(PerformanceAgentTest, LanesAndLevels) {
  counts.ports[1].lane_transmit_wait[3] = 70'000;
  counts.ports[1].level_receive_data[15] = 9;
  const auto lanes = wire::data_as<wire::PortVlTransmitWaitCounters>(
      ask(MadMethod::get, PerformanceAttribute::port_vl_transmit_wait_counters,
          wire::PortVlTransmitWaitCounters{.port_select = 1}));
  EXPECT_EQ(lanes.lanes[3], 0xffff);
  const auto received = wire::data_as<wire::PortDataSl>(
      ask(MadMethod::get, PerformanceAttribute::port_receive_data_sl,
          wire::PortDataSl{.port_select = 1}));
  EXPECT_EQ(received.service_levels[15], 9u);
  const auto transmitted = wire::data_as<wire::PortDataSl>(
      ask(MadMethod::get, PerformanceAttribute::port_transmit_data_sl,
          wire::PortDataSl{.port_select = 1}));
  EXPECT_EQ(transmitted.service_levels[15], 0u);
}

TEST_F(PerformanceAgentTest, RefusesWhatItDoesNotHave) {
  using enum PerformanceAttribute;
  EXPECT_EQ(ask(MadMethod::get, port_counters, PortCounters{.port_select = 5}).status,
            MadStatus::invalid_value);
  EXPECT_EQ(ask(MadMethod::get, port_samples_result, PortCounters{}).status,
            MadStatus::unsupported_attribute);
  EXPECT_EQ(ask(MadMethod::set, port_samples_control, wire::PortSamplesControl{}).status,
            MadStatus::unsupported_attribute);
  EXPECT_EQ(ask(MadMethod::get_table, port_counters, PortCounters{}).status,
            MadStatus::unsupported_method);
  const auto samples = wire::data_as<wire::PortSamplesControl>(
      ask(MadMethod::get, port_samples_control, wire::PortSamplesControl{}));
  EXPECT_EQ(samples.mechanisms, 0);
  EXPECT_EQ(samples.tick, kTransmitWaitTick);
  PerformancePacket response{.method = MadMethod::get_response, .attribute = port_counters};
  EXPECT_FALSE(agent.on_packet(response));
}

TEST_F(PerformanceAgentTest, SaysWhatItCanDo) {
  const auto info = wire::data_as<wire::ClassPortInfo>(
      ask(MadMethod::get, PerformanceAttribute::class_port_info, wire::ClassPortInfo{}));
  EXPECT_NE(info.capabilities & wire::performance_capability::kAllPortSelect, 0);
  EXPECT_NE(info.capabilities & wire::performance_capability::kExtendedCounters, 0);
}

}  // namespace
}  // namespace verbatim::mad
