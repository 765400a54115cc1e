#include "cli/disk/logins.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace verbatim::cli {
namespace {

constexpr ServiceKind kKind{.kind = "initiator", .what = "keeper of logins"};

}  // namespace

Result<void> show_logins(const NodeChoice& node, const HostChoice& host) {
  const auto folder = service::folder_of(service_name(kKind.kind, {node, host}));
  if (!folder) return std::unexpected(folder.error());
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return refuse(error.value(), "/proc/self/exe: " + error.message());
  setenv("VERBATIM_INITIATOR", folder->c_str(), 1);
  setenv("VERBATIM_PROGRAM", program.c_str(), 1);
  return {};
}

int start_logins(const ServiceChoice& choice) {
  if (service::process_of(service_name(kKind.kind, choice)) != 0) return 0;
  return start_service(kKind, choice, {});
}

int end_logins(const ServiceChoice& choice) {
  const auto ended = service::end(service_name(kKind.kind, choice));
  if (ended || ended.error().code == ENOENT) return 0;
  return fail_service(kKind, "down", ended.error().text);
}

}  // namespace verbatim::cli
