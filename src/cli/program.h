#pragma once

#include <expected>
#include <string>
#include <vector>

#include "cli/environment.h"

/// A program that a command starts on a node.
namespace verbatim::cli {

/// Why a program is not started.
struct StartFailure {
  int exit_status = 0;
  std::string text;
};

/// Finds the program that the first of `words` names, and puts what it needs into the environment
/// of this process, which it inherits. Returns its path. Warns if it will not use our libraries.
std::expected<std::string, StartFailure> prepare_program(const NodeChoice& choice,
                                                         const std::vector<std::string>& words);

/// Puts the choice into the environment of this process.
std::expected<void, StartFailure> set_environment(const NodeChoice& choice);

/// Becomes the program: returns only if that fails.
StartFailure become_program(const std::string& path, std::vector<std::string> words);

}  // namespace verbatim::cli
