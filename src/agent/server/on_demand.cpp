#include "agent/server/on_demand.h"

#include <algorithm>

#include "base/log.h"
#include "wire/mad/rdma_ip_header.h"

namespace verbatim::agent {
namespace {

/// RDS listens at one port for each family of addresses.
constexpr ServiceId kServices[] = {wire::service_id_of(PortSpace::tcp, 18634),
                                   wire::service_id_of(PortSpace::tcp, 16385)};

}  // namespace

bool OnDemand::on_request(ServiceId service, TimeNs now) {
  if (std::ranges::find(kServices, service) == std::end(kServices)) return false;
  if (started_at_ != 0 && elapsed(started_at_, now) < kBetweenStarts) return is_on_its_way_;
  started_at_ = now;
  const auto started = start_({"rds", "up", "--until-idle"});
  is_on_its_way_ = started.has_value();
  if (!started) log(LogLevel::warn, "RDS is asked for: {}", started.error().text);
  return is_on_its_way_;
}

}  // namespace verbatim::agent
