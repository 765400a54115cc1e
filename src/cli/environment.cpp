#include "cli/environment.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "agent/client/client.h"
#include "base/files/dapl_registry.h"
#include "base/net/address.h"
#include "cli/nic/function.h"
#include "cli/text/preload_word.h"
#include "config/node_config.h"

namespace verbatim::cli {
namespace {

constexpr std::size_t kNodeNameMax = 63;
constexpr std::array<std::string_view, 3> kPaths{"auto", "direct", "wire"};

bool is_node_name(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > kNodeNameMax || !is_alphanumeric(name.front())) return false;
  for (const char c : name) {
    if (!is_alphanumeric(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

/// LD_PRELOAD is separated by colons or spaces. Appended at the end, because a sanitizer's library
/// must be first.
std::string append_once(std::string_view list, const std::string& library) {
  if (list.empty()) return library;
  if (list.find(library) != std::string_view::npos) return std::string(list);
  return fmt::format("{}:{}", list, library);
}

}  // namespace

Result<std::string> own_folder() {
  std::array<char, PATH_MAX> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) {
    return refuse(errno, fmt::format("cannot read /proc/self/exe: {}; is /proc mounted?",
                                     std::strerror(errno)));
  }
  const std::string_view program(path.data(), static_cast<std::size_t>(length));
  return std::string(program.substr(0, program.rfind('/')));
}

Result<std::string> find_dropin_folder(std::string_view program_folder) {
  const auto slash = program_folder.rfind('/');
  const std::string prefix(slash == std::string_view::npos ? "" : program_folder.substr(0, slash));
  for (const char* folder : {"/lib/verbatim", "/lib"}) {
    const std::string candidate = prefix + folder;
    if (access((candidate + "/libibverbs.so.1").c_str(), R_OK) != 0) continue;
    if (candidate.find_first_of(":;") == std::string::npos) return candidate;
    return refuse(EINVAL, fmt::format("{} has a ':' or ';', which LD_LIBRARY_PATH cannot have: "
                                      "install Verbatim into another folder",
                                      candidate));
  }
  return refuse(ENOENT, fmt::format("no libibverbs.so.1 in {0}/lib/verbatim (installed) or {0}/lib "
                                    "(build tree); run ./setup.sh, or install Verbatim again",
                                    prefix));
}

std::string prepend_folder(const std::string& folder, std::string_view old_path) {
  std::string path = folder;
  while (!old_path.empty()) {
    const auto entry = old_path.substr(0, old_path.find(':'));
    old_path.remove_prefix(std::min(old_path.size(), entry.size() + 1));
    // An empty entry would mean the current folder, which is never intended.
    if (!entry.empty() && entry != folder) path.append(":").append(entry);
  }
  return path;
}

Result<Variables> variables_for(const NodeChoice& choice, const std::string& dropin_folder,
                                const std::string& view, const OldEnvironment& old) {
  Variables variables = {
      {"LD_LIBRARY_PATH", prepend_folder(dropin_folder, old.library_path)},
      {"LD_PRELOAD",
       append_once(old.preload, preload_word(dropin_folder + std::string(kViewLibrary)))},
      {"VERBATIM_VIEW", view}};
  if (choice.node) {
    if (!is_node_name(*choice.node)) {
      return refuse(EINVAL, fmt::format("'{}' cannot be the name of a node: use 1 to {} letters, "
                                        "digits, '-', '_' or '.', a letter or digit first",
                                        *choice.node, kNodeNameMax));
    }
    variables.emplace_back("VERBATIM_NODE", *choice.node);
  }
  for (const auto& address : choice.addresses) {
    if (!SocketAddress::parse(address)) {
      return refuse(EINVAL, fmt::format("'{}' is not an IP address: give one of this machine, "
                                        "such as 127.0.0.2 or fd00::2",
                                        address));
    }
  }
  if (!choice.addresses.empty()) {
    variables.emplace_back("VERBATIM_ADDRESS", fmt::format("{}", fmt::join(choice.addresses, ",")));
  }
  using Chosen = std::pair<std::string_view, const std::optional<std::string>*>;
  for (const auto& [key, value] : {Chosen{"roce", &choice.roce},
                                   {"protocol", &choice.protocol},
                                   {"device", &choice.device},
                                   {"profile", &choice.profile}}) {
    if (!*value) continue;
    config::NodeConfig checked;
    if (auto fits = config::apply(key, **value, checked); !fits) {
      return std::unexpected(fits.error());
    }
    variables.emplace_back(config::find_key(key)->variable, **value);
  }
  if (choice.function) {
    const auto function = nic::place_of(*choice.function);
    if (!function) return std::unexpected(function.error());
    variables.emplace_back("VERBATIM_FUNCTION", *function);
  }
  if (choice.path) {
    if (std::ranges::find(kPaths, *choice.path) == kPaths.end()) {
      return refuse(EINVAL,
                    fmt::format("'{}' is no path: write auto, direct or wire", *choice.path));
    }
    variables.emplace_back("VERBATIM_PATH", *choice.path);
  }
  return variables;
}

std::string with_library(const char* preload, const std::string& library) {
  return append_once(preload == nullptr ? "" : preload, library);
}

std::string node_of(const NodeChoice& choice) {
  if (choice.node) return *choice.node;
  const char* name = getenv("VERBATIM_NODE");
  return name != nullptr && *name != '\0' ? name : agent::AgentOptions{}.node;
}

Result<Variables> own_variables_for(const NodeChoice& choice) {
  const auto own = own_folder();
  if (!own) return std::unexpected(own.error());
  const auto dropins = find_dropin_folder(*own);
  if (!dropins) return std::unexpected(dropins.error());
  const auto view = agent::view_folder(node_of(choice));
  if (!view) return std::unexpected(view.error());
  const auto old = [](const char* name) {
    const char* value = getenv(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  };
  return variables_for(choice, *dropins, *view,
                       {.library_path = old("LD_LIBRARY_PATH"), .preload = old("LD_PRELOAD")});
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

void name_dapl_registry() {
  const char* const view = getenv("VERBATIM_VIEW");
  const char* const named = getenv("DAT_OVERRIDE");
  const bool is_others = named != nullptr && !std::string_view(named).ends_with(kDaplRegistry);
  if (view == nullptr || is_others) return;
  setenv("DAT_OVERRIDE", std::string(view).append(kDaplRegistry).c_str(), 1);
}

}  // namespace verbatim::cli
