#pragma once

#include <span>
#include <string>
#include <string_view>

namespace verbatim::cli {

/// Of `names`, the one that `word` was probably meant to be: the fewest letters have to be added,
/// removed or changed, at most `distance_max` and fewer than half of them. Upper and lower case are
/// the same. Empty if none is near.
std::string nearest(std::string_view word, std::span<const std::string> names,
                    std::size_t distance_max = 3);

}  // namespace verbatim::cli
