#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

/// The environment variables that Verbatim reads.
namespace verbatim::cli::doctor {

struct Variable {
  std::string_view name;
  /// What it may be; EINVAL in words.
  Result<void> (*check)(const std::string& value);
};

std::span<const Variable> known_variables();

/// The known name that `name` was probably meant to be; empty if none is near.
std::string nearest_variable(std::string_view name);

}  // namespace verbatim::cli::doctor
