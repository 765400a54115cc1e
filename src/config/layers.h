#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/entries.h"
#include "config/node_config.h"

/// The sources of a node's values. For each key the priority is: command line option, environment
/// variable, user's file, system's file, default.
namespace verbatim::config {

/// Folders of `NODE.conf` files; the first has the highest priority.
using Folders = std::vector<std::string>;

/// Returns VERBATIM_CONFIG (absolute paths, separated by colons), or else `verbatim.d` in
/// $XDG_CONFIG_HOME or ~/.config, then /etc/verbatim.d. A program with raised privileges reads only
/// the last. EINVAL for a relative path in VERBATIM_CONFIG.
Result<Folders> config_folders();
/// Parses the value of VERBATIM_CONFIG. EINVAL.
Result<Folders> parse_folders(std::string_view list);
/// Returns the path of a node's file in a folder.
std::string file_of(const std::string& folder, std::string_view node);

/// Returns the file's bytes, at most kFileBytesMax + 1. ENOENT if it does not exist or its folder
/// may not be entered; otherwise the error of reading.
Result<std::string> read_file(const std::string& path);
/// Returns all faults of a file's content: syntax, keys and values.
std::vector<Fault> faults_of(std::string_view content);

struct Effective {
  NodeConfig config;
  /// One for each key, in the order of `keys()`. `from` is "default" or "profile NAME" for a key
  /// that is not set.
  std::vector<Setting> settings;
  std::vector<std::string> files;  // The files that were read.
};

/// Returns the values of a node. `given`: settings of options, then of the environment; the first
/// for a key has priority. EINVAL with file, line and cause for any error.
Result<Effective> resolve(std::string_view node, const Folders& folders,
                          const std::vector<Setting>& given);

/// Returns a number that two nodes of the same effective values share, and others do not; never 0.
std::uint64_t digest_of(const Effective& effective);

/// Returns the settings of environment variables.
std::vector<Setting> from_environment();

}  // namespace verbatim::config
