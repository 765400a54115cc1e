#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"

/// Numbers as a person reads and writes them.
namespace verbatim::cli {

/// "1 packet", "2,014 packets".
std::string counted(std::uint64_t count, std::string_view noun);
/// "512 bytes", "8.3 MB".
std::string bytes_text(std::uint64_t bytes);
/// "500ms", "10s", "5min", "1h". EINVAL for what is none, with words for the person who wrote it.
Result<TimeNs> parse_duration(std::string_view text);

}  // namespace verbatim::cli
