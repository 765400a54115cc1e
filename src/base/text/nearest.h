#pragma once

#include <span>
#include <string>
#include <string_view>

namespace verbatim {

/// Returns the one of `names` that is most similar to `word`, ignoring case: with at most
/// `distance_max` letters added, removed or changed, and fewer than half of its letters. Empty if
/// there is none.
std::string nearest(std::string_view word, std::span<const std::string> names,
                    std::size_t distance_max = 3);

}  // namespace verbatim
