#include <algorithm>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/doctor/checks.h"
#include "cli/doctor/variables.h"

/// Checks the installation, the environment, and the runtime folder.
namespace verbatim::cli::doctor {
namespace {

constexpr std::string_view kPrefix = "VERBATIM";

Finding judge_unknown(const std::string& name) {
  const auto meant = nearest_variable(name);
  if (meant.empty()) {
    return note("variables", fmt::format("nothing of Verbatim reads {}", name),
                "nothing if a program of yours does; man verbatim.7 has the names");
  }
  return fault("variables", fmt::format("nothing reads {}: {} may be meant", name, meant),
               fmt::format("unset {}, and set {}", name, meant));
}

/// A preloaded libibverbs comes before ours, whatever LD_LIBRARY_PATH is.
void check_preload(const Machine& machine, Findings& findings) {
  for (const auto part : std::views::split(variable(machine, "LD_PRELOAD"), ':')) {
    const std::string_view library(part);
    const auto name = library.substr(library.rfind('/') + 1);
    const bool is_dropin = name.starts_with("libibverbs.so") || name.starts_with("librdmacm.so");
    const bool is_ours =
        machine.installation.folder && library.starts_with(*machine.installation.folder + "/");
    if (!is_dropin || is_ours) continue;
    findings.push_back(fault("LD_PRELOAD",
                             fmt::format("{} is loaded before Verbatim's library", library),
                             "take it out of LD_PRELOAD"));
  }
}

}  // namespace

Findings check_installation(const Machine& machine) {
  constexpr const char* kSubject = "installation";
  const Installation& installation = machine.installation;
  if (!installation.folder) {
    return {fault(kSubject, installation.folder.error().text,
                  "build it (./setup.sh), or install it again")};
  }
  if (!installation.missing.empty()) {
    return {fault(kSubject, fmt::format("missing: {}", fmt::join(installation.missing, ", ")),
                  "build it (./setup.sh), or install it again")};
  }
  return {ok(kSubject,
             fmt::format("release {}, libraries in {}", VERBATIM_VERSION, *installation.folder))};
}

Findings check_variables(const Machine& machine) {
  Findings findings;
  const auto known = known_variables();
  for (const auto& [name, value] : machine.variables) {
    const auto found = std::ranges::find(known, std::string_view(name), &Variable::name);
    if (found != known.end()) {
      if (value.empty()) continue;  // Counts as not set.
      if (const auto checked = found->check(value); !checked) {
        findings.push_back(fault("variables", fmt::format("{}: {}", name, checked.error().text),
                                 fmt::format("unset {}, or see man verbatim.7", name)));
      }
      continue;
    }
    std::string upper(name);
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return toupper(c); });
    const bool is_like_ours = upper.starts_with(kPrefix) || !nearest_variable(name).empty();
    if (is_like_ours) findings.push_back(judge_unknown(name));
  }
  check_preload(machine, findings);
  if (findings.empty()) {
    const auto count = std::ranges::count_if(known, [&](const Variable& one) {
      return machine.variables.contains(std::string(one.name));
    });
    findings.push_back(ok("variables", count == 0 ? std::string("none of Verbatim's is set")
                                                  : fmt::format("{} set, all right", count)));
  }
  return findings;
}

Findings check_runtime_folder(const Machine& machine) {
  constexpr const char* kSubject = "runtime folder";
  const RuntimeFolderFacts& folder = machine.runtime_folder;
  if (!folder.path) {
    return {fault(kSubject, folder.path.error().text,
                  "make a folder of yours with mode 0700, and set XDG_RUNTIME_DIR to it for all "
                  "programs of the node")};
  }
  Findings findings;
  if (!folder.wanted.empty() && !folder.path->starts_with(folder.wanted + "/")) {
    findings.push_back(note(kSubject,
                            fmt::format("XDG_RUNTIME_DIR={} is no folder of user {}: {} is taken, "
                                        "and programs with another XDG_RUNTIME_DIR do not see it",
                                        folder.wanted, machine.user, *folder.path),
                            "set XDG_RUNTIME_DIR to a folder of yours, or unset it, for all "
                            "programs of the node"));
  }
  const std::string first = fmt::format("/verbatim-{}.", machine.uid);
  if (folder.path->find(first) != std::string::npos) {
    findings.push_back(note(kSubject,
                            fmt::format("{} is taken, because another user has taken the names "
                                        "before it",
                                        *folder.path),
                            "set XDG_RUNTIME_DIR to a folder of yours with mode 0700"));
  }
  constexpr std::uint64_t kRoomMin = 1 << 20;
  if (folder.free_bytes < kRoomMin) {
    findings.push_back(fault(kSubject,
                             fmt::format("{} has {} left: no agent can leave its socket there",
                                         *folder.path, size_text(folder.free_bytes)),
                             "make room there, or set XDG_RUNTIME_DIR to another folder of yours"));
  }
  if (findings.empty()) findings.push_back(ok(kSubject, *folder.path));
  return findings;
}

}  // namespace verbatim::cli::doctor
