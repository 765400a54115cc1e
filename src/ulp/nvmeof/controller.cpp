#include "ulp/nvmeof/controller.h"

namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint32_t kEntrySizes = 0x00460000;      // CC: 16 and 64 bytes.
constexpr std::uint32_t kEntrySizesMask = 0x00ff0000;  // IOCQES, IOSQES

/// CAP (figure 69): queues are contiguous; 7.5 s to become ready; the NVM command set.
std::uint64_t capabilities(std::uint32_t entries) {
  return std::uint64_t{1} << 37 | std::uint64_t{15} << 24 | 1u << 16 | (entries - 1);
}

}  // namespace

std::optional<std::uint64_t> Controller::property(Property property) const {
  switch (property) {
    case Property::capabilities:
      return capabilities(limits_.queue_entries);
    case Property::version:
      return kVersion;
    case Property::configuration:
      return configuration_;
    case Property::status:
      return status_;
  }
  return std::nullopt;
}

/// Base specification 1.4, section 3.1.5: CC is the one register that a host writes.
bool Controller::set_property(Property property, std::uint64_t value) {
  if (property != Property::configuration) return false;
  const auto wanted = static_cast<std::uint32_t>(value);
  const bool begins = (wanted & kEnable) != 0 && (configuration_ & kEnable) == 0;
  const bool fits = (wanted & kEntrySizesMask) == kEntrySizes || is_discovery();
  configuration_ = wanted;
  if ((wanted & kEnable) == 0) status_ = 0;
  if (begins) status_ = fits ? kReady : kFatal;
  if (begins && !fits) configuration_ &= ~kEnable;
  if ((wanted & kShutdown) != 0) {
    status_ = kShutdownComplete;
    configuration_ &= ~kEnable;
  }
  return true;
}

}  // namespace verbatim::ulp::nvmeof
