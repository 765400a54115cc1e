#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/doctor/checks.h"
#include "cli/doctor/facts/service_needs.h"

/// Checks what commands of services need besides Verbatim itself.
namespace verbatim::cli::doctor {
namespace {

Findings judge(const Machine& machine, const ServiceNeed& need) {
  if (!machine.missing_needs.contains(&need))
    return {ok(need.subject, fmt::format("'{}' has what it needs", need.command))};
  return {note(need.subject,
               fmt::format("'{}' is refused: {} is not installed", need.command, need.what),
               fmt::format("nothing if you do not use it; else install {}", need.package))};
}

}  // namespace

Findings check_services(const Machine& machine) {
  Findings findings;
  for (const ServiceNeed& need : kServiceNeeds) {
    for (Finding& finding : judge(machine, need)) findings.push_back(std::move(finding));
  }
  return findings;
}

Findings check_lnet(const Machine& machine) {
  constexpr const char* kSubject = "LNet";
  constexpr std::uint64_t kLustrePort = 987;
  if (machine.uid == 0 || machine.first_free_port <= kLustrePort)
    return {ok(kSubject, "'verbatim lnet' may listen at Lustre's port 987")};
  return {
      note(kSubject,
           fmt::format("'verbatim lnet' may not listen at Lustre's port 987: ports below {} are "
                       "root's",
                       machine.first_free_port),
           "say the same --port, above 1023, at all nodes")};
}

}  // namespace verbatim::cli::doctor
