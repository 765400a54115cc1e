#include "cli/target/restore.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/executable.h"

namespace verbatim::cli {
namespace {

struct Saved {
  const char* file;  // In the folder that programs see as theirs.
  const char* program;
  const char* package;
};
constexpr Saved kSaved[] = {
    {"/rtslib/saveconfig.json", "targetctl", "python3-rtslib-fb"},
    {"/nvmet/config.json", "nvmetcli", "nvmetcli, from its public repository"},
};

Result<void> run(const std::string& path, const char* program) {
  std::string name(program), word("restore");
  char* const words[] = {name.data(), word.data(), nullptr};
  pid_t child = 0;
  const int code = posix_spawn(&child, path.c_str(), nullptr, nullptr, words, environ);
  if (code != 0) return refuse(code, fmt::format("{}: {}", path, std::strerror(code)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return {};
  return refuse(EIO, fmt::format("'{} restore' has not restored everything", program));
}

}  // namespace

Result<void> restore_target(const service::ServiceName& name) {
  const auto folder = service::folder_of(name);
  if (!folder) return std::unexpected(folder.error());
  setenv("VERBATIM_TARGET", folder->c_str(), 1);
  for (const Saved& saved : kSaved) {
    if (access((*folder + saved.file).c_str(), R_OK) != 0) continue;
    const auto program = find_executable(saved.program, search_path());
    if (!program)
      return refuse(ENOENT, fmt::format("what was saved is not restored: {} is not installed ({})",
                                        saved.program, saved.package));
    if (auto done = run(*program, saved.program); !done) return done;
  }
  return {};
}

}  // namespace verbatim::cli
