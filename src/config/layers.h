#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/entries.h"
#include "config/node_config.h"

/// Where a node's values come from. Key by key: an option of the command line counts before a
/// variable of the environment, that before the user's file, that before the system's, that before
/// the default.
namespace verbatim::config {

/// Folders of files `NODE.conf`, the one that counts most first.
using Folders = std::vector<std::string>;

/// VERBATIM_CONFIG (absolute paths, separated by colons), else `verbatim.d` in $XDG_CONFIG_HOME or
/// ~/.config, then /etc/verbatim.d. A program with raised privileges reads the last alone. EINVAL
/// for a relative path in VERBATIM_CONFIG.
Result<Folders> config_folders();
/// What VERBATIM_CONFIG says. EINVAL.
Result<Folders> parse_folders(std::string_view list);
/// The path of a node's file in a folder.
std::string file_of(const std::string& folder, std::string_view node);

/// The file's bytes, at most kFileBytesMax + 1. ENOENT where there is none, or its folder is not
/// ours to enter; else why it cannot be read.
Result<std::string> read_file(const std::string& path);
/// Everything that is wrong with a file's content: its form, its keys and its values.
std::vector<Fault> faults_of(std::string_view content);

struct Effective {
  NodeConfig config;
  /// One for each key, in the order of `keys()`. `from` is "default" or "profile NAME" where
  /// nobody has said it.
  std::vector<Setting> settings;
  std::vector<std::string> files;  // Those that were read.
};

/// The values of a node. `given` are those of options, then of the environment: the first counts.
/// EINVAL with file, line and cause for whatever is wrong in any of them.
Result<Effective> resolve(std::string_view node, const Folders& folders,
                          const std::vector<Setting>& given);

/// What the variables of the environment say.
std::vector<Setting> from_environment();

}  // namespace verbatim::config
