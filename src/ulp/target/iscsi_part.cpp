#include "ulp/target/iscsi_part.h"

#include <algorithm>
#include <cerrno>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/random.h>

#include "ulp/target/disks.h"
#include "ulp/target/scsi_unit.h"

namespace verbatim::ulp::target {
namespace {

void fill_random(MutableByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t filled = getrandom(bytes.data(), bytes.size(), 0);
    if (filled > 0) bytes = bytes.subspan(static_cast<std::size_t>(filled));
  }
}

}  // namespace

Result<iscsi::Authentication> read_authentication(const std::string& file) {
  std::ifstream in(file);
  if (!in) return refuse_errno(file);
  iscsi::Authentication out;
  const std::pair<std::string_view, std::string*> known[] = {
      {"userid", &out.initiator.user},
      {"password", &out.initiator.secret},
      {"userid_mutual", &out.target.user},
      {"password_mutual", &out.target.secret}};
  std::string key, value;
  while (in >> key >> value) {
    const auto one = std::ranges::find(known, key, [](const auto& row) { return row.first; });
    if (one == std::end(known))
      return refuse(EINVAL, fmt::format("{}: what is '{}'? There are userid, password, "
                                        "userid_mutual, password_mutual",
                                        file, key));
    *one->second = value;
  }
  if (out.initiator.user.empty() || out.initiator.secret.empty())
    return refuse(EINVAL, fmt::format("{}: userid and password are missing", file));
  if (out.target.user.empty() != out.target.secret.empty())
    return refuse(EINVAL, fmt::format("{}: userid_mutual needs password_mutual", file));
  return out;
}

IscsiPart::IscsiPart(std::span<const Slice> memory)
    : sessions_({.sessions = kSessions}, memory, fill_random) {}

Result<void> IscsiPart::add(const IscsiSettings& settings, storage::UnitId unit,
                            const backstore::Geometry& geometry) {
  if (settings.any != "yes" && settings.any != "no")
    return refuse(EINVAL, fmt::format("allow-any-initiator is yes or no, not '{}'", settings.any));
  auto target = iscsi::Target::create(settings.name);
  if (!target) return std::unexpected(target.error());
  if (settings.any == "yes") target->admit_any();
  for (const std::string& initiator : split(settings.initiators)) {
    if (auto admitted = target->admit(initiator); !admitted)
      return std::unexpected(admitted.error());
  }
  if (!settings.auth.empty()) {
    auto wanted = read_authentication(settings.auth);
    if (!wanted) return std::unexpected(wanted.error());
    target->set_authentication(std::move(*wanted));
  }
  unit_ = make_scsi_unit(unit, geometry, settings.name);
  if (auto added = target->add(0, *unit_); !added) return std::unexpected(added.error());
  if (auto added = sessions_.add(std::move(*target)); !added) return std::unexpected(added.error());
  return {};
}

nlohmann::json IscsiPart::status() const {
  nlohmann::json targets = nlohmann::json::array(), initiators = nlohmann::json::array();
  for (const auto& target : sessions_.targets()) {
    targets.push_back({{"name", target->name()},
                       {"any_initiator", target->admits_any()},
                       {"units", target->settings().units.units().size()}});
  }
  for (const auto& session : sessions_.sessions()) {
    if (session != nullptr)
      initiators.push_back({{"initiator", session->initiator},
                            {"target", session->target->name()},
                            {"session", session->tsih()}});
  }
  return {{"targets", std::move(targets)}, {"initiators", std::move(initiators)}};
}

}  // namespace verbatim::ulp::target
