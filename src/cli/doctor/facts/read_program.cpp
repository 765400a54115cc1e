#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/unique_fd.h"
#include "cli/doctor/facts/program.h"
#include "cli/executable.h"
#include "cli/read_all.h"

namespace verbatim::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int kInterpretersMax = 4;  // The kernel's limit: a script's interpreter may be a script.

bool is_executable(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

/// Returns the interpreter in "#!/usr/bin/env python3 -u"; empty if there is no such line.
std::string interpreter_of(const std::string& path) {
  const std::string line = first_line(path);
  if (!line.starts_with("#!")) return {};
  std::istringstream words(line.substr(2));
  std::string interpreter, argument;
  words >> interpreter;
  if (!interpreter.ends_with("/env")) return interpreter;
  while (words >> argument && (argument.starts_with('-') || argument.contains('='))) {
  }
  const auto found = find_executable(argument, search_path());
  return found ? *found : argument;
}

/// Follows scripts to the program that runs them. Sets `elf` and the fields about interpreters.
std::string follow_interpreters(std::string path, Program& program) {
  for (int depth = 0; depth < kInterpretersMax; ++depth) {
    program.elf = read_elf(path);
    if (program.elf) return path;
    std::string interpreter = interpreter_of(path);
    if (interpreter.empty()) {
      program.is_script_without_interpreter = true;
      interpreter = "/bin/sh";
    }
    program.interpreters.push_back(interpreter);
    if (!is_executable(interpreter)) {
      program.missing_interpreter = interpreter;
      return {};
    }
    path = std::move(interpreter);
  }
  return {};
}

/// Returns the loader's output for loading a program without starting it.
std::string ask_loader(const std::string& loader, const std::string& path) {
  constexpr unsigned kSecondsMax = 20;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = fork();
  if (child < 0) return {};
  if (child == 0) {
    alarm(kSecondsMax);
    dup2(writing.get(), STDOUT_FILENO);
    dup2(writing.get(), STDERR_FILENO);
    execl(loader.c_str(), loader.c_str(), "--list", path.c_str(), nullptr);
    _exit(127);
  }
  writing.reset();
  std::string text = read_all(reading.get());
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

bool is_in(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return !error && real.parent_path() == fs::canonical(folder, error) && !error;
}

/// Parses "	libz.so.1 => /lib/libz.so.1 (0x00...)", "	libx.so => not found", or a
/// complaint.
void read_loader_line(const std::string& line, const std::string& dropin_folder, Program& program) {
  const auto arrow = line.find(" => ");
  if (!line.starts_with('\t')) {
    if (line.empty()) return;
    if (!program.loader_words.empty()) program.loader_words += "; ";
    program.loader_words += line;
    return;
  }
  if (arrow == std::string::npos) return;  // The loader itself, the vDSO, or a preloaded library.
  LoadedLibrary library;
  library.name = line.substr(1, arrow - 1);
  std::istringstream rest(line.substr(arrow + 4));
  rest >> library.path;
  if (library.path == "not") library.path.clear();
  library.is_ours =
      !library.path.empty() && !dropin_folder.empty() && is_in(library.path, dropin_folder);
  if (auto elf = read_elf(library.path); elf && !library.is_ours) library.elf = std::move(*elf);
  program.libraries.push_back(std::move(library));
}

void find_absent_names(const std::string& dropin_folder, Program& program) {
  const auto look = [&](const ElfFile& elf) {
    for (const std::string& name : elf.rdma_names) {
      const std::string ours = fmt::format("{}/{}", dropin_folder, name);
      const bool is_there = !name.starts_with('/') && access(ours.c_str(), F_OK) == 0;
      if (!is_there) program.absent_names.push_back(name);
    }
  };
  if (program.elf) look(*program.elf);
  for (const LoadedLibrary& library : program.libraries) look(library.elf);
}

}  // namespace

Program read_program(const std::string& command, const Result<std::string>& dropin_folder) {
  Program program{.command = command,
                  .path = find_executable(command, search_path()),
                  .interpreters = {},
                  .missing_interpreter = {},
                  .elf = {},
                  .libraries = {},
                  .loader_words = {},
                  .absent_names = {}};
  if (!program.path) return program;
  program.gains_rights = cli::gains_rights(*program.path);
  const std::string started = follow_interpreters(*program.path, program);
  if (!program.elf || !program.elf->is_dynamic) return program;
  program.has_loader = is_executable(program.elf->loader);
  if (!program.has_loader) return program;
  const std::string folder = dropin_folder ? *dropin_folder : "";
  std::istringstream lines(ask_loader(program.elf->loader, started));
  for (std::string line; std::getline(lines, line);) read_loader_line(line, folder, program);
  if (!folder.empty()) find_absent_names(folder, program);
  return program;
}

}  // namespace verbatim::cli::doctor
