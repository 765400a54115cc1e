#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace verbatim::service {

/// A setting of a daemon. The first of these that says it counts: the command line (`--NAME
/// VALUE`), the variable, the user's file, the system's file.
struct Setting {
  const char* name = "";        // In files '_' is written for '-'.
  const char* value_name = "";  // In the help: "FILE".
  const char* variable = "";    // Of the environment; empty: none.
  const char* help = "";
  std::string* value = nullptr;  // Where it goes; keeps its default if nobody says it.
};

/// What the command line says, by the setting's name.
using SaidSettings = std::vector<std::pair<std::string_view, std::string>>;

/// Fills in the values. The files of a daemon are `KIND/NAME.conf` in the folders of nodes' files
/// (config/layers.h), and have their syntax. EINVAL with file and line: a key that no setting has,
/// or a fault of syntax.
Result<void> fill_settings(const std::string& kind, const std::string& name,
                           std::span<const Setting> settings, const SaidSettings& said);

}  // namespace verbatim::service
