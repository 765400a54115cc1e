#include "ulp/nvmeof/host/initiator.h"

/// Asymmetric namespace access (base specification 1.4, section 8.20): the target says how well the
/// namespace is reached by this port, in a log page, and tells when that has changed.
namespace verbatim::ulp::nvmeof {

using storage::InitiatorOutput;
using storage::PathState;

namespace {

constexpr storage::Channel kAdmin{0};
constexpr std::uint32_t kLogBytes = 4096;  // 127 groups.
constexpr std::uint8_t kNotice = 2, kAccessChanged = 3;

struct RefusalRow {
  Status status{};
  AccessState state{};
};
constexpr RefusalRow kRefusals[] = {
    {Status::access_persistent_loss, AccessState::persistent_loss},
    {Status::access_inaccessible, AccessState::inaccessible},
    {Status::access_transition, AccessState::change},
};

}  // namespace

PathState Initiator::path_state() const {
  if (access_ == AccessState::optimized) return PathState::optimized;
  return access_ == AccessState::non_optimized ? PathState::non_optimized : PathState::none;
}

AdminCommand Initiator::access_log() const {
  AdminCommand command;
  put_log_request({.page = LogPage::access_states, .bytes = kLogBytes, .only_groups = true},
                  command);
  command.data = describe_scratch(kLogBytes);
  return command;
}

/// A group that the page does not have is not reached.
void Initiator::take_access() {
  access_ = decode_access_state({scratch_.data(), kLogBytes}, access_group_)
                .value_or(AccessState::inaccessible);
}

void Initiator::look_at_access(InitiatorOutput& out) {
  if (access_group_ == 0) return static_cast<void>(access_ = AccessState::optimized);
  if (is_access_asked_) return;
  is_access_asked_ = true;
  AdminCommand command = access_log();
  command.id = kAccessId;
  send_admin(kAdmin, command, out);
}

void Initiator::on_access_log(const Completion& completion) {
  is_access_asked_ = false;
  if (completion.status == Status::success) take_access();
}

void Initiator::wait_for_event(InitiatorOutput& out) {
  send_admin(kAdmin, {.opcode = AdminOpcode::async_event_request, .id = kEventId}, out);
}

void Initiator::on_event(const Completion& completion, InitiatorOutput& out) {
  if (completion.status != Status::success || step_ != Step::serving) return;
  const auto kind = static_cast<std::uint8_t>(completion.result & 0x7);
  const auto what = static_cast<std::uint8_t>(completion.result >> 8);
  if (kind == kNotice && what == kAccessChanged) look_at_access(out);
  wait_for_event(out);
}

/// Until the log page says something else; it is read each second.
void Initiator::on_refused_access(Status status) {
  for (const RefusalRow& row : kRefusals)
    if (row.status == status) access_ = row.state;
}

}  // namespace verbatim::ulp::nvmeof
