#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

/// The environment variables that Verbatim reads.
namespace verbatim::cli::doctor {

struct Variable {
  std::string_view name;
  /// Checks the value; EINVAL with a text.
  Result<void> (*check)(const std::string& value);
};

std::span<const Variable> known_variables();

/// Returns the known name that is most similar to `name`; empty if none is.
std::string nearest_variable(std::string_view name);

}  // namespace verbatim::cli::doctor
