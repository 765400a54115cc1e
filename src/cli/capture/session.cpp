#include "cli/capture/session.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "cli/capture/wall_clock.h"

namespace verbatim::cli {
namespace {

/// How often the rings are read.
constexpr TimeNs kPause = 10 * kMillisecond;
/// Packets wait so long for earlier ones of other programs.
constexpr TimeNs kPatience = 10 * kMillisecond;
/// Then the agent and the signals are looked at.
constexpr int kPacketsAtOnce = 4096;
constexpr std::size_t kBytesAtOnce = 1 << 18;

void say(std::string_view text) { fmt::print(stderr, "verbatim capture: {}\n", text); }

std::string name_of(const agent::CapturedProgram& program) {
  return program.pid == 0 ? program.name
                          : fmt::format("{} (process {})", program.name, program.pid);
}

}  // namespace

Session::Session(agent::AgentOptions options, Output output, UniqueFd connection)
    : options_(std::move(options)),
      output_(std::move(output)),
      connection_(std::move(connection)),
      file_(options_.node, "verbatim capture " VERBATIM_VERSION) {}

Result<Session> Session::open(const agent::AgentOptions& options, const std::string& path) {
  auto connection = agent::start_capture(options);
  if (!connection) return std::unexpected(connection.error());
  auto output = Output::open(path);
  if (!output) return std::unexpected(output.error());
  return Session(options, std::move(*output), std::move(*connection));
}

Result<void> Session::run(int stop, int program, TimeNs deadline) {
  std::array<pollfd, 3> ready{};
  while (monotonic_now() < deadline && ready[0].revents == 0 && ready[1].revents == 0) {
    const auto has_more = write_packets(wall_clock_now() - kPatience, stop);
    if (!has_more) return std::unexpected(has_more.error());
    ready = {pollfd{stop, POLLIN, 0}, pollfd{program, POLLIN, 0},
             pollfd{connection_.get(), POLLIN, 0}};
    const TimeNs pause = *has_more ? 0 : std::min(kPause, elapsed(monotonic_now(), deadline));
    poll(ready.data(), ready.size(), static_cast<int>((pause + kMillisecond - 1) / kMillisecond));
    if (ready[2].revents != 0) hear_agent();
  }
  return {};
}

Result<void> Session::finish(int stop) {
  const TimeNs end = wall_clock_now();
  hear_rest();
  for (bool has_more = true; has_more;) {
    const auto written = write_packets(end, stop);
    if (!written) return std::unexpected(written.error());
    has_more = *written;
  }
  totals_.lost = merge_.dropped();
  file_.add_statistics(end, merge_.packets(), merge_.dropped());
  if (merge_.damaged() != 0) {
    say(fmt::format("{} programs left packets that cannot be read", merge_.damaged()));
  }
  return flush(stop);
}

void Session::hear_agent() {
  while (connection_) {
    auto program = agent::next_captured(connection_.get());
    if (program) {
      add(std::move(*program));
    } else {
      if (program.error().code != EAGAIN) find_agent_again();
      return;
    }
  }
}

/// Programs that have ended, in whatever a busy agent has not read of them.
void Session::hear_rest() {
  hear_agent();
  if (!connection_) return;
  auto programs = agent::rest_captured(connection_.get());
  if (!programs) return;  // The agent has been killed just now.
  for (auto& program : *programs) add(std::move(program));
}

/// Programs whose agent has been killed rejoin the next one, and offer other rings. What they
/// capture until then comes still.
void Session::find_agent_again() {
  connection_.reset();
  auto connection = agent::start_capture(options_);
  if (!connection) {
    return say(fmt::format("programs that start from now on are not captured: {}",
                           connection.error().text));
  }
  connection_ = std::move(*connection);
}

void Session::add(agent::CapturedProgram program) {
  note_direct(program);
  if (!program.failure.empty()) {
    return say(fmt::format("{} is not captured: {}", name_of(program), program.failure));
  }
  if (!program.ring) return;
  auto reader = link::CaptureReader::open(std::move(program.ring));
  if (!reader) {
    return say(fmt::format("{} is not captured: {}", name_of(program), reader.error().text));
  }
  merge_.add(program.slot, std::move(*reader));
  ++totals_.programs;
}

void Session::note_direct(const agent::CapturedProgram& program) {
  if (!program.is_direct || direct_[program.slot] == program.pid) return;
  direct_[program.slot] = program.pid;
  say(
      fmt::format("{} is reached on the direct path, where there are no packets: start it and its "
                  "peers with 'verbatim run --path wire' to see them",
                  name_of(program)));
}

/// Some of the packets from before `horizon`. Returns true if there may be more.
Result<bool> Session::write_packets(TimeNs horizon, int stop) {
  link::CapturedPacket packet;
  ByteSpan bytes;
  int count = 0;
  while (count < kPacketsAtOnce && merge_.next(horizon, packet, bytes)) {
    file_.add(packet, bytes);
    ++count;
    ++totals_.packets;
    totals_.bytes += bytes.size();
    totals_.hit += packet.remark == link::Remark::none ? 0 : 1;
    if (file_.bytes().size() < kBytesAtOnce) continue;
    if (auto written = flush(stop); !written) return std::unexpected(written.error());
  }
  if (auto written = flush(stop); !written) return std::unexpected(written.error());
  return count == kPacketsAtOnce;
}

Result<void> Session::flush(int stop) {
  auto written = output_.write(file_.bytes(), stop);
  file_.bytes().clear();
  return written;
}

}  // namespace verbatim::cli
