#include "cli/program.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/executable.h"

namespace verbatim::cli {
namespace {

/// Puts `added` and a `separator` before the variable's value; changes nothing if it is there.
void put_before(const char* name, const std::string& added, char separator) {
  const char* const old = getenv(name);
  if (old == nullptr || *old == '\0') {
    setenv(name, added.c_str(), 1);
  } else if (!std::string_view(old).contains(added)) {
    setenv(name, fmt::format("{}{}{}", added, separator, old).c_str(), 1);
  }
}

/// For programs that are checked while they run: by AddressSanitizer, by valgrind.
void set_checkers_variables(const std::string& program) {
  if (const auto first = library_to_load_first(program); !first.empty()) {
    put_before("LD_PRELOAD", first, ':');
  }
  if (std::string_view(program).substr(program.rfind('/') + 1) != "valgrind") return;
  const auto own = own_folder();
  const auto dropins = own ? find_dropin_folder(*own) : own;
  if (dropins) put_before("VALGRIND_OPTS", "--suppressions=" + *dropins + "/verbatim.supp", ' ');
}

}  // namespace

std::expected<void, StartFailure> set_environment(const NodeChoice& choice) {
  const auto variables = own_variables_for(choice);
  if (!variables) {
    const Error& error = variables.error();
    return std::unexpected(
        StartFailure{error.code == EINVAL ? kExitUsage : kExitFailure, error.text});
  }
  if (choice.node || !choice.addresses.empty()) {  // Not the host that the environment names.
    unsetenv("VERBATIM_HOST");
    unsetenv("VERBATIM_FABRIC");
  }
  for (const auto& [name, value] : *variables) setenv(name.c_str(), value.c_str(), 1);
  return {};
}

std::expected<std::string, StartFailure> prepare_program(const NodeChoice& choice,
                                                         const std::vector<std::string>& words) {
  const std::string path = search_path();
  auto program = find_executable(words.front(), path);
  if (!program) {
    const Error& error = program.error();
    return std::unexpected(
        StartFailure{error.code == ENOENT ? kExitNotFound : kExitNotExecutable, error.text});
  }
  if (auto set = set_environment(choice); !set) return std::unexpected(set.error());
  setenv("PATH", path.c_str(), 1);  // A script finds what its first line finds.
  set_checkers_variables(*program);
  if (const auto reason = reason_dropins_are_ignored(*program); !reason.empty()) {
    fmt::print(stderr, "verbatim: warn: {}\n", reason);
  }
  return std::move(*program);
}

StartFailure become_program(const std::string& path, std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(path.c_str(), arguments.data());
  if (errno == ENOEXEC) {  // A script without "#!": run by a shell, as shells do.
    arguments[0] = const_cast<char*>(path.c_str());
    arguments.insert(arguments.begin(), const_cast<char*>("sh"));
    execv("/bin/sh", arguments.data());
  }
  return {kExitNotExecutable, fmt::format("cannot start {}: {}", path, std::strerror(errno))};
}

}  // namespace verbatim::cli
