#pragma once

#include <cstdint>
#include <string>

namespace verbatim::cli {

struct PingForm {
  std::string peer, from;
  std::uint64_t count = 0;  // 0: until it is interrupted.
  double interval = 1;      // Seconds; also how long it waits for the last answer.
};

/// `verbatim rds ping`, on the node of the environment. Returns the exit status: 1 if no answer
/// came.
int rds_ping(const PingForm& form);

}  // namespace verbatim::cli
