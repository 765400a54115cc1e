#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

/// The environment variables that make a program run on Verbatim.
namespace verbatim::cli {

/// Options of the command line; for those that are not given, the environment is used.
struct NodeChoice {
  std::optional<std::string> node;
  std::vector<std::string> addresses;
  std::optional<std::string> roce;      // Versions: "v1,v2".
  std::optional<std::string> protocol;  // "iwarp".
  std::optional<std::string> device;    // A name or a rule: "mlx5_0", "NAME_GUID".
  std::optional<std::string> profile;   // "connectx-7".
  std::optional<std::string> path;      // "wire".
  std::optional<std::string> function;  // Of a card: "vf2", "CARD/vf2".
};

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Returns the folder of our libibverbs.so.1, relative to this program: `../lib/verbatim` if
/// installed, `../lib` in the build tree. ENOENT if neither has it.
Result<std::string> find_dropin_folder(std::string_view program_folder);
/// Returns the folder of the running program.
Result<std::string> own_folder();

/// Returns `folder` followed by `old_path` (a colon-separated list, or empty), with `folder` only
/// once.
std::string prepend_folder(const std::string& folder, std::string_view old_path);

/// Variables that are extended; empty if not set.
struct OldEnvironment {
  std::string_view library_path;
  std::string_view preload;
};

/// The library that redirects paths in /sys and /dev to a node's view; it is in the drop-ins'
/// folder.
inline constexpr std::string_view kViewLibrary = "/libverbatim-view.so";

/// The library that makes a program's sockets rsockets; there, too.
inline constexpr std::string_view kSocketsLibrary = "/rsocket/librspreload.so.1";
/// Returns a value of LD_PRELOAD (or null) with `library` at its end.
std::string with_library(const char* preload, const std::string& library);

/// Returns the variables to set for `choice`. `view`: the node's folder (VERBATIM_VIEW). EINVAL for
/// an invalid node name, address or RoCE version.
Result<Variables> variables_for(const NodeChoice& choice, const std::string& dropin_folder,
                                const std::string& view, const OldEnvironment& old);
/// Returns the node in `choice`, or else in the environment.
std::string node_of(const NodeChoice& choice);

/// Returns the variables for this program's own libraries in its current environment.
Result<Variables> own_variables_for(const NodeChoice& choice);

/// Returns `text` quoted as one word of a POSIX shell.
std::string shell_quoted(std::string_view text);

/// uDAPL programs of this process find the providers in VERBATIM_VIEW (DAT_OVERRIDE), unless they
/// have been told of others than a node's.
void name_dapl_registry();

}  // namespace verbatim::cli
