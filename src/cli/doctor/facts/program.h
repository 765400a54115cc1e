#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/doctor/facts/elf_file.h"
#include "cli/doctor/facts/machine.h"
#include "cli/doctor/finding.h"

/// The facts about a program that the checks judge.
namespace verbatim::cli::doctor {

/// A library as the loader finds it for the program, in the environment of `verbatim run`.
struct LoadedLibrary {
  std::string name;  // "libibverbs.so.1"
  std::string path;  // Empty: not found.
  bool is_ours = false;
  ElfFile elf;
};

struct Program {
  std::string command;                    // As the person wrote it.
  Result<std::string> path;               // EACCES, ENOENT.
  std::vector<std::string> interpreters;  // A script's, and theirs where they are scripts, too.
  bool is_script_without_interpreter = false;  // "#!" is missing: a shell takes it.
  std::string missing_interpreter;             // Named by "#!", and not there.
  bool gains_rights = false;
  std::optional<ElfFile> elf;  // Of the program, or of the last interpreter.
  bool has_loader = true;      // `elf->loader` exists.
  std::vector<LoadedLibrary> libraries;
  std::string loader_words;  // What the loader complains of.
  /// Of libraries that it could load later, those that are not in our folder.
  std::vector<std::string> absent_names;
};

/// Looks at the program, without starting it, as `verbatim run` would start it: the environment is
/// set already.
Program read_program(const std::string& command, const Result<std::string>& dropin_folder);

Findings check_program_file(const Program& program);
Findings check_launcher(const Program& program);
Findings check_rights(const Program& program);
Findings check_architecture(const Program& program);
Findings check_loader(const Program& program);
Findings check_rdma_libraries(const Program& program);
Findings check_later_libraries(const Program& program);
Findings check_static_rdma(const Program& program);
Findings check_device_libraries(const Program& program);

/// All of them, and the path that the program would take on this machine.
Findings check_program(const Program& program, const Machine& machine);

}  // namespace verbatim::cli::doctor
