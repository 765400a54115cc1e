#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

/// What makes a program run on Verbatim: a few environment variables.
namespace verbatim::cli {

/// As the person gave it on the command line; what is not given stays as the environment has it.
struct NodeChoice {
  std::optional<std::string> node;
  std::vector<std::string> addresses;
  std::optional<std::string> roce;      // Versions: "v1,v2".
  std::optional<std::string> protocol;  // "iwarp".
  std::optional<std::string> device;    // A name or a rule: "mlx5_0", "NAME_GUID".
  std::optional<std::string> profile;   // "connectx-7".
};

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The folder with our libibverbs.so.1, found relative to this program: `../lib/verbatim` where it
/// is installed, `../lib` in the build tree. ENOENT where neither has it.
Result<std::string> find_dropin_folder(std::string_view program_folder);
/// The folder of the program that runs.
Result<std::string> own_folder();

/// `folder` in front of what `old_path` (a colon-separated list, may be empty) names, once.
std::string prepend_folder(const std::string& folder, std::string_view old_path);

/// What the environment holds already and what we add to; empty where it is not set.
struct OldEnvironment {
  std::string_view library_path;
  std::string_view preload;
};

/// The library that leads paths of /sys and /dev into a node's view, beside the drop-ins.
inline constexpr std::string_view kViewLibrary = "/libverbatim-view.so";

/// The variables to set for `choice`. `view` is the node's folder (VERBATIM_VIEW). EINVAL for a
/// node name, an address or a RoCE version that cannot be one.
Result<Variables> variables_for(const NodeChoice& choice, const std::string& dropin_folder,
                                const std::string& view, const OldEnvironment& old);
/// The node that `choice` or else the environment names.
std::string node_of(const NodeChoice& choice);

/// The variables for this program's own libraries and the environment that it runs in.
Result<Variables> own_variables_for(const NodeChoice& choice);

/// `text` as one word of a POSIX shell.
std::string shell_quoted(std::string_view text);

}  // namespace verbatim::cli
