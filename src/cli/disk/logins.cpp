#include "cli/disk/logins.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace verbatim::cli {
namespace {

constexpr ServiceKind kKind{.kind = "initiator", .what = "keeper of logins"};

/// open-iscsi's login is the kernel's: its sockets of netlink, and disks that only it can make.
void warn_of_kernels(const std::string& program) {
  constexpr std::string_view kOfOpenIscsi[] = {"iscsiadm", "iscsid", "iscsistart"};
  const std::string_view name = std::string_view(program).substr(program.rfind('/') + 1);
  if (std::ranges::find(kOfOpenIscsi, name) == std::end(kOfOpenIscsi)) return;
  fmt::print(stderr,
             "verbatim: warn: {} logs in by this machine's kernel, not on the node: 'verbatim disk "
             "iser://HOST/IQN/LUN' logs in on the node\n",
             name);
}

}  // namespace

Result<void> show_logins(const NodeChoice& node, const HostChoice& host,
                         const std::string& program) {
  warn_of_kernels(program);
  const auto folder = service::folder_of(service_name(kKind.kind, {node, host}));
  if (!folder) return std::unexpected(folder.error());
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return refuse(error.value(), "/proc/self/exe: " + error.message());
  setenv("VERBATIM_INITIATOR", folder->c_str(), 1);
  setenv("VERBATIM_PROGRAM", own.c_str(), 1);
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
