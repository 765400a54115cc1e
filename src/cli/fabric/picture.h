#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/time.h"
#include "fabric/drawing/drawing.h"

namespace verbatim::cli {

/// Draws the fabric `name` from two answers of its daemon (`fabric_status`) that are `interval`
/// apart: a link's load is what it has carried between them. Throws if either lacks a value.
fabric::drawing::Drawing picture_of(const std::string& name, const nlohmann::ordered_json& before,
                                    const nlohmann::ordered_json& after, TimeNs interval);

}  // namespace verbatim::cli
