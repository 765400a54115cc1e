#include "ulp/initiator/nvme/nvme_controller.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace verbatim::ulp::initiator {
namespace {

using nvmeof::AdminCommand;
using nvmeof::AdminOpcode;
using nvmeof::IdentifyKind;
using nvmeof::kIdentifyBytes;

AdminCommand identify(IdentifyKind kind, std::uint32_t space) {
  AdminCommand command{.opcode = AdminOpcode::identify, .namespace_id = space};
  command.dwords[0] = raw(kind);
  return command;
}

std::span<const std::byte, kIdentifyBytes> page_of(ByteSpan data) {
  return data.first<kIdentifyBytes>();
}

bool is_good(const NvmeController::Answer& answer) {
  return answer.code == 0 && answer.completion.status == nvmeof::Status::success;
}

constexpr std::size_t kSpacesMax = 64;
constexpr storage::Channel kAdmin{0}, kIo{1};

}  // namespace

NvmeController::NvmeController(Links& links, FabricsOptions options,
                               std::function<void()> on_change)
    : options_(std::move(options)),
      on_change_(std::move(on_change)),
      link_(links, [this] { on_change_(); }) {}

const char* NvmeController::state_text() const {
  switch (state_) {
    case State::live:
      return "live";
    case State::resetting:
      return "resetting";
    case State::leaving:
    case State::over:
      return "deleting";
    case State::connecting:
    case State::lost:
      return "connecting";
  }
  return "";
}

void NvmeController::set(State state) {
  state_ = state;
  on_change_();
}

nvmeof::Initiator* NvmeController::engine() {
  return static_cast<nvmeof::Initiator*>(link_.engine());
}

Result<void> NvmeController::begin(TimeNs now) {
  if (auto opened = link_.open(); !opened) return opened;
  log_in(now);
  return {};
}

void NvmeController::log_in(TimeNs now) {
  constexpr std::uint32_t kMilliseconds = 1000;
  next_login_ = kNever;
  // Discovery is over soon: no keep alive, as with Linux.
  const std::uint32_t keep_alive =
      options_.is_discovery ? 0 : static_cast<std::uint32_t>(options_.keep_alive_s) * kMilliseconds;
  const auto host_id = disk::parse_host_id(options_.host_id).value_or(disk::own_identity().host_id);
  link_.begin(
      rdma::IpService{options_.to},
      [&](const disk::OwnSide& own) {
        return std::make_unique<nvmeof::Initiator>(
            nvmeof::Initiator::Settings{.subsystem = options_.subsystem,
                                        .host = options_.host,
                                        .host_id = host_id,
                                        .has_disk = false,
                                        .passes_io = !options_.is_discovery,
                                        .keep_alive_ms = keep_alive},
            own.scratch);
      },
      now);
}

void NvmeController::advance(TimeNs now) {
  if (state_ == State::over) return;
  nvmeof::Initiator* const session = engine();
  const bool is_serving = session != nullptr && session->facts() != nullptr;
  was_refused_ |= session != nullptr && session->was_refused();
  if (session == nullptr && next_login_ == kNever) return on_lost(now);
  if (session == nullptr && next_login_ <= now) return log_in(now);
  if (is_serving && (state_ == State::connecting || state_ == State::lost)) on_live();
  if (is_serving && state_ == State::live) serve(now);
}

void NvmeController::on_live() {
  names_ = engine()->names();
  id_ = engine()->controller_id();
  set(State::live);
}

void NvmeController::on_lost(TimeNs now) {
  // What fails may ask again, and must not wait for a session.
  const State before = std::exchange(state_, State::lost);
  fail_all();
  switch (before) {
    case State::connecting:
    case State::leaving:
      return set(State::over);
    case State::resetting:
      lost_at_ = now;
      next_login_ = now;
      return on_change_();
    case State::live:
      lost_at_ = now;
      log(LogLevel::warn, "{}: the controller is lost, and waited for: {}", options_.subsystem,
          link_.words());
      break;
    case State::lost:
    case State::over:
      break;
  }
  const bool is_given_up =
      options_.loss_s >= 0 && elapsed(lost_at_, now) >= options_.loss_s * kSecond;
  if (is_given_up) return set(State::over);
  next_login_ = now + options_.reconnect_s * kSecond;
  set(State::lost);
}

TimeNs NvmeController::deadline() const { return next_login_; }

void NvmeController::leave(TimeNs now) {
  if (state_ == State::leaving || state_ == State::over) return;
  state_ = engine() == nullptr ? State::over : State::leaving;
  next_login_ = kNever;
  fail_all();
  link_.log_out(now);
  on_change_();
}

void NvmeController::reset(TimeNs now) {
  if (state_ != State::live) return;
  state_ = State::resetting;
  link_.log_out(now);
  on_change_();
}

void NvmeController::ask(const AdminCommand& command, std::uint32_t bytes, ByteSpan data,
                         OnAnswer on_answer) {
  push({.channel = kAdmin,
        .command = command,
        .bytes = bytes,
        .data = {data.begin(), data.end()},
        .on_answer = std::move(on_answer)});
}

void NvmeController::ask_io(const AdminCommand& command, std::uint32_t bytes, ByteSpan data,
                            OnAnswer on_answer) {
  if (options_.is_discovery) return on_answer({.code = ENOTTY, .completion = {}, .data = {}});
  push({.channel = kIo,
        .command = command,
        .bytes = bytes,
        .data = {data.begin(), data.end()},
        .on_answer = std::move(on_answer)});
}

void NvmeController::push(Command command) {
  if (state_ != State::live || commands_.size() >= kCommandsMax)
    return command.on_answer({.code = EAGAIN, .completion = {}, .data = {}});
  commands_.push_back(std::move(command));
  on_change_();
}

void NvmeController::serve(TimeNs now) {
  if (const auto completion = engine()->take_answer()) {
    const Command done = std::move(commands_.front());
    commands_.pop_front();
    is_passing_ = false;
    done.on_answer(
        {.code = 0, .completion = *completion, .data = ByteSpan(link_.data().data(), done.bytes)});
  }
  if (is_passing_ || commands_.empty() || state_ != State::live) return;
  const Command& next = commands_.front();
  storage::PeerMemory memory = link_.data();
  memory.here.bytes = next.bytes;
  std::memset(memory.data(), 0, next.bytes);
  std::ranges::copy(next.data, memory.data());
  is_passing_ = true;
  link_.run(
      [&](Link::Output& out) {
        is_passing_ = engine()->pass(next.channel, next.command, memory, now, out);
      },
      now);
}

void NvmeController::fail_all() {
  is_passing_ = false;
  for (const Command& command : std::exchange(commands_, {}))
    command.on_answer({.code = EIO, .completion = {}, .data = {}});
}

/// Questions about all namespaces, one after the other.
struct NvmeController::Survey {
  std::vector<std::uint32_t> left;  // The next one is the last.
  std::vector<NvmeSpace> found;
  std::function<void(std::vector<NvmeSpace>)> on_spaces;
};

void NvmeController::ask_spaces(std::function<void(std::vector<NvmeSpace>)> on_spaces) {
  auto survey = std::make_shared<Survey>();
  survey->on_spaces = std::move(on_spaces);
  if (options_.is_discovery) return survey->on_spaces({});
  ask(identify(IdentifyKind::active_spaces, 0), kIdentifyBytes, {},
      [this, survey](const Answer& answer) {
        if (is_good(answer)) survey->left = nvmeof::decode_space_list(page_of(answer.data));
        if (survey->left.size() > kSpacesMax) survey->left.resize(kSpacesMax);
        std::ranges::reverse(survey->left);
        ask_next_space(survey);
      });
}

void NvmeController::ask_next_space(const std::shared_ptr<Survey>& survey) {
  if (survey->left.empty()) return survey->on_spaces(std::move(survey->found));
  const std::uint32_t id = survey->left.back();
  survey->left.pop_back();
  ask(identify(IdentifyKind::space, id), kIdentifyBytes, {}, [survey, id](const Answer& answer) {
    if (!is_good(answer)) return;
    const auto space = nvmeof::decode_space(page_of(answer.data));
    survey->found.push_back(
        {.id = id, .blocks = space.blocks, .block_shift = space.block_shift, .uuid = {}});
  });
  ask(identify(IdentifyKind::space_descriptors, id), kIdentifyBytes, {},
      [this, survey, id](const Answer& answer) {
        const bool is_known = !survey->found.empty() && survey->found.back().id == id;
        if (is_known && is_good(answer))
          survey->found.back().uuid = nvmeof::decode_uuid(page_of(answer.data));
        ask_next_space(survey);
      });
}

}  // namespace verbatim::ulp::initiator
