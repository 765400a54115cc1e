#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

/// What will happen to a program when `verbatim run` starts it.
namespace verbatim::cli {

/// Finds `command` as execvp does: as it is where it contains a slash, else in the folders of
/// `search_path`. ENOENT: there is none; EACCES: it cannot be executed. The text says what to do.
Result<std::string> find_executable(const std::string& command, std::string_view search_path);

/// True if the program runs with rights that its caller has not (set-user-id, set-group-id, file
/// capabilities): the loader then drops LD_LIBRARY_PATH (AT_SECURE).
bool gains_rights(const std::string& path);

/// Why the dynamic loader would not use our libraries for the program at `path` (a static program,
/// a set-user-id program, another architecture), as a sentence; empty where it would.
std::string reason_dropins_are_ignored(const std::string& path);

}  // namespace verbatim::cli
