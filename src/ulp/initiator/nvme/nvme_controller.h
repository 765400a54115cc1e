#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ulp/initiator/links.h"
#include "ulp/initiator/nvme/fabrics_options.h"
#include "ulp/nvmeof/host/initiator.h"

namespace verbatim::ulp::initiator {

/// A namespace as the controller tells of it.
struct NvmeSpace {
  std::uint32_t id = 0;
  std::uint64_t blocks = 0;
  std::uint8_t block_shift = 9;
  nvmeof::Uuid uuid{};
};

/// A controller that a program has connected to: its admin queue, which is made again when it is
/// lost, and the commands of programs on it. Disks have controllers of their own (disk_process.h).
class NvmeController {
 public:
  enum class State : std::uint8_t { connecting, live, lost, resetting, leaving, over };
  struct Answer {
    int code = 0;  // An errno value: the command was not carried out.
    nvmeof::Completion completion;
    ByteSpan data;
  };
  using OnAnswer = std::function<void(const Answer& answer)>;
  /// `on_change`: another state; must not destroy it.
  NvmeController(Links& links, FabricsOptions options, std::function<void()> on_change);

  Result<void> begin(TimeNs now);
  void advance(TimeNs now);
  TimeNs deadline() const;
  void leave(TimeNs now);
  void reset(TimeNs now);

  /// Carried out one after the other. `bytes`: of data; `data`: what goes to the controller.
  void ask(const nvmeof::AdminCommand& command, std::uint32_t bytes, ByteSpan data,
           OnAnswer on_answer);
  /// The same on its I/O queue.
  void ask_io(const nvmeof::AdminCommand& command, std::uint32_t bytes, ByteSpan data,
              OnAnswer on_answer);
  /// All active namespaces; then `on_spaces`, also without all if the controller is lost.
  void ask_spaces(std::function<void(std::vector<NvmeSpace> spaces)> on_spaces);

  State state() const { return state_; }
  const char* state_text() const;
  const FabricsOptions& options() const { return options_; }
  /// Of the last login.
  std::uint16_t id() const { return id_; }
  const nvmeof::FoundNames& names() const { return names_; }
  /// Commands of programs that wait for each other.
  static constexpr std::size_t kCommandsMax = 256;
  const std::string& words() const { return link_.words(); }
  /// The target has refused the first login by a status.
  bool was_refused() const { return was_refused_; }

 private:
  struct Command {
    storage::Channel channel{};
    nvmeof::AdminCommand command;
    std::uint32_t bytes = 0;
    std::vector<std::byte> data;
    OnAnswer on_answer;
  };
  struct Survey;
  void push(Command command);
  nvmeof::Initiator* engine();
  void log_in(TimeNs now);
  void on_live();
  void on_lost(TimeNs now);
  void serve(TimeNs now);
  void fail_all();
  void ask_next_space(const std::shared_ptr<Survey>& survey);
  void set(State state);

  const FabricsOptions options_;
  const std::function<void()> on_change_;
  Link link_;
  State state_ = State::connecting;
  std::deque<Command> commands_;
  bool is_passing_ = false, was_refused_ = false;
  std::uint16_t id_ = 0;
  nvmeof::FoundNames names_;
  TimeNs lost_at_ = 0, next_login_ = kNever;
};

}  // namespace verbatim::ulp::initiator
