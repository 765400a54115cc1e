#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/doctor/facts/elf_file.h"
#include "cli/doctor/facts/machine.h"
#include "cli/doctor/finding.h"

/// Facts about a program, which the checks judge.
namespace verbatim::cli::doctor {

/// A library, and the file that the loader finds for it in the environment of `verbatim run`.
struct LoadedLibrary {
  std::string name;  // "libibverbs.so.1"
  std::string path;  // Empty: not found.
  bool is_ours = false;
  ElfFile elf;
};

struct Program {
  std::string command;                         // As the user typed it.
  Result<std::string> path;                    // EACCES, ENOENT.
  std::vector<std::string> interpreters;       // Of a script, and of interpreters that are scripts.
  bool is_script_without_interpreter = false;  // "#!" is missing: a shell runs it.
  std::string missing_interpreter;             // Named by "#!", but does not exist.
  bool gains_rights = false;
  std::optional<ElfFile> elf;  // The program's, or the last interpreter's.
  bool has_loader = true;      // `elf->loader` exists.
  std::vector<LoadedLibrary> libraries;
  std::string loader_words;  // Complaints of the loader.
  /// Libraries that it could load later and that are not in our folder.
  std::vector<std::string> absent_names;
};

/// Reads the facts of the program without starting it, as `verbatim run` would start it: the
/// environment is set already.
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
Findings check_sanitizer(const Program& program);

/// Runs all checks, and tells which path the program would use on this machine.
Findings check_program(const Program& program, const Machine& machine);

}  // namespace verbatim::cli::doctor
