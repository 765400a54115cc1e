#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "agent/client/client.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "cli/capture/output.h"
#include "link/capture_file/capture_file.h"
#include "link/capture_file/capture_merge.h"

namespace verbatim::cli {

/// The capture of one node, from `open` until the object is destroyed.
class Session {
 public:
  struct Totals {
    std::uint64_t packets = 0;  // Written.
    std::uint64_t bytes = 0;    // Of packets.
    std::uint64_t hit = 0;      // Of the packets: by faults.
    std::uint64_t lost = 0;     // Packets for which a ring had no room.
    std::size_t programs = 0;
  };

  /// Starts the node's agent where none runs. `path`: of the file, as `Output` has it.
  static Result<Session> open(const agent::AgentOptions& options, const std::string& path);

  /// Serves until `stop` (a descriptor) is readable, or `program` (-1: none), or until `deadline`.
  Result<void> run(int stop, int program, TimeNs deadline);
  /// Writes what was captured before this call, unless `stop` says otherwise.
  Result<void> finish(int stop);
  /// Programs capture no longer.
  void close() { connection_.reset(); }

  const Totals& totals() const { return totals_; }
  const Output& output() const { return output_; }

 private:
  Session(agent::AgentOptions options, Output output, UniqueFd connection);
  void hear_agent();
  void hear_rest();
  void find_agent_again();
  void add(agent::CapturedProgram program);
  void note_direct(const agent::CapturedProgram& program);
  Result<bool> write_packets(TimeNs horizon, int stop);
  Result<void> flush(int stop);

  agent::AgentOptions options_;
  Output output_;
  UniqueFd connection_;
  link::CaptureMerge merge_;
  link::CaptureFile file_;
  Totals totals_;
  /// Processes that were named as reached on the direct path, by slot.
  std::map<std::uint32_t, pid_t> direct_;
};

}  // namespace verbatim::cli
