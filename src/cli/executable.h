#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

/// How the system will start a program for `verbatim run`.
namespace verbatim::cli {

/// Finds `command` as execvp does: unchanged if it contains a slash, else in the folders of
/// `search_path`. ENOENT if there is none, EACCES if it cannot be executed. The text says what to
/// do.
Result<std::string> find_executable(const std::string& command, std::string_view search_path);

/// The PATH of programs that we start: this process's, then root's folders, where distributions put
/// opensm and the diagnostic programs and an ordinary user's PATH does not lead.
std::string search_path();

/// Returns true if the program gets rights that its caller does not have (set-user-id,
/// set-group-id, file capabilities): the loader then ignores LD_LIBRARY_PATH (AT_SECURE).
bool gains_rights(const std::string& path);

/// Returns why the dynamic loader would not use our libraries for the program at `path` (static,
/// set-user-id, another architecture), as a sentence; empty if it would.
std::string reason_dropins_are_ignored(const std::string& path);

/// Returns "libasan.so.8" if the program at `path` is linked with AddressSanitizer's library and
/// sets its options itself: the library must then be the first that is loaded. Empty if not.
std::string library_to_load_first(const std::string& path);

}  // namespace verbatim::cli
