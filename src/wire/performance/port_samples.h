#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "wire/mad/fields.h"

namespace verbatim::wire {

enum class SampleStatus : std::uint8_t { done = 0, started = 1, running = 2 };

/// Counting for a limited time (IBA 16.1.3.2). An agent without a sampling mechanism answers with
/// `mechanisms` 0 and no counters; `tick` is still the unit of the transmit wait counters.
struct PortSamplesControl {
  static constexpr std::size_t kSize = 68;
  static constexpr std::uint8_t kTickBaseNs = 4;  // A symbol's time at 1x SDR.
  std::uint8_t opcode = 0;
  std::uint8_t port_select = 0;
  std::uint8_t tick = 0;  // kTickBaseNs * (n + 1).
  std::uint8_t counter_width = 0;
  std::uint8_t counter_mask0 = 0;
  std::uint32_t counter_masks1_to_9 = 0;
  std::uint16_t counter_masks10_to_14 = 0;
  std::uint8_t mechanisms = 0;
  SampleStatus status{};
  std::uint64_t option_mask = 0;
  std::uint64_t vendor_mask = 0;
  std::uint32_t start = 0;
  std::uint32_t interval = 0;
  std::uint16_t tag = 0;
  std::array<std::uint16_t, 15> counter_select{};
  friend bool operator==(const PortSamplesControl&, const PortSamplesControl&) = default;
  static constexpr auto kFields = std::tuple(
      field(&PortSamplesControl::opcode, 0), field(&PortSamplesControl::port_select, 8),
      field(&PortSamplesControl::tick, 16), field(&PortSamplesControl::counter_width, 29, 3),
      field(&PortSamplesControl::counter_mask0, 34, 3),
      field(&PortSamplesControl::counter_masks1_to_9, 37, 27),
      field(&PortSamplesControl::counter_masks10_to_14, 65, 15),
      field(&PortSamplesControl::mechanisms, 80), field(&PortSamplesControl::status, 94, 2),
      field(&PortSamplesControl::option_mask, 96), field(&PortSamplesControl::vendor_mask, 160),
      field(&PortSamplesControl::start, 224), field(&PortSamplesControl::interval, 256),
      field(&PortSamplesControl::tag, 288), field(&PortSamplesControl::counter_select, 304));
};

}  // namespace verbatim::wire
