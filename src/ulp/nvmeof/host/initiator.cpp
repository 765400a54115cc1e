#include "ulp/nvmeof/host/initiator.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::nvmeof {

using storage::Channel;
using storage::InitiatorOutput;

namespace {

constexpr Channel kAdmin{0}, kIo{1};
constexpr std::uint32_t kAdminEntries = 32;
constexpr std::uint32_t kReceiveBytes = 64;
constexpr std::uint32_t kArenaBytes = 4096;
constexpr std::uint64_t kEnable = 0x460001, kShutDown = 0x464001;  // CC
constexpr std::uint32_t kQueueCount = 0x07;                        // Of Set Features.
constexpr CommandId kAdminId{1}, kKeepAliveId{2}, kPassedId{3};
constexpr std::uint32_t kEventSettings = 0x0b, kAccessNotice = 1u << 11;  // Also of OAES.
constexpr TimeNs kReadyAgain = 100 * kMillisecond;

constexpr std::string_view kRejections[] = {
    "",
    "its private data has a wrong length",
    "its private data has a wrong format",
    "the queue's number is wrong",
    "the queue has too many commands",
    "the queue has too few receives",
    "the target has no resources left",
    "too few READs are allowed",
    "too many READs are asked for",
};

/// The same over all paths to a namespace.
std::string identity_of(const Initiator::Settings& settings, const FoundNames& names,
                        const FoundSpace& space) {
  std::string text = fmt::format("{}/{}/{}", settings.subsystem,
                                 names.serial.substr(0, names.serial.find_last_not_of(' ') + 1),
                                 settings.namespace_id);
  if (space.global_id == Uuid{}) return text;
  text += '/';
  for (const std::byte one : space.global_id)
    text += fmt::format("{:02x}", std::to_integer<unsigned>(one));
  return text;
}

AdminCommand event_settings() {
  AdminCommand command{.opcode = AdminOpcode::set_features};
  command.dwords[0] = kEventSettings;
  command.dwords[1] = kAccessNotice;
  return command;
}

}  // namespace

Initiator::Initiator(Settings settings, const storage::PeerMemory& scratch)
    : settings_(std::move(settings)), scratch_(scratch), entries_(settings_.entries) {
  arena_.reserve(kArenaBytes);
}

void Initiator::begin(TimeNs now, InitiatorOutput& out) {
  began_ = now;
  next_look_ = now + kLook;
  out.connect.push(
      {.channel = kAdmin,
       .private_data = encode(
           QueueRequest{.queue_id = 0, .receives = kAdminEntries, .commands = kAdminEntries}),
       .sizes = {
           .sends = 2 * kAdminEntries, .receives = kAdminEntries, .receive_bytes = kReceiveBytes}});
}

storage::Failure Initiator::on_rejected(Channel channel, int reason, ByteSpan private_data) {
  constexpr int kNobodyListens = 8, kProtocolRefuses = 28;  // IBA 12.6.7.2.
  // Over iWARP an errno value.
  if (reason == kNobodyListens || reason == -ECONNREFUSED)
    return {"no NVMe target listens there", true};
  const auto why = static_cast<std::size_t>(decode_queue_rejection(private_data));
  if (reason == kProtocolRefuses && why > 0 && why < std::size(kRejections))
    return {
        fmt::format("the target refuses queue {} of {} entries: {}", static_cast<unsigned>(channel),
                    channel == kAdmin ? kAdminEntries : entries_, kRejections[why]),
        why != static_cast<std::size_t>(QueueRejection::no_resources)};
  return {fmt::format("the connection is rejected, reason {}", reason), false};
}

std::string Initiator::words_of_connect(Status status) const {
  switch (status) {
    case Status::connect_invalid_parameters:
      return fmt::format("there is no such subsystem, or not for us: {} for {}",
                         settings_.subsystem, settings_.host);
    case Status::connect_invalid_host:
      return fmt::format("this host is not admitted: {} must name {}", settings_.subsystem,
                         settings_.host);
    case Status::connect_controller_busy:
      return "the controller is busy";
    default:
      return fmt::format("the target refuses Connect, status {:#x}", raw(status));
  }
}

void Initiator::on_established(Channel channel, ByteSpan, TimeNs, InitiatorOutput& out) {
  arena_.clear();
  is_established_ = true;
  if (channel == kAdmin) return go(Step::connect, connect_command(0, kAdminEntries), out);
  AdminCommand command = connect_command(1, entries_);
  send_admin(kIo, command, out);
}

AdminCommand Initiator::connect_command(std::uint16_t queue, std::uint32_t commands) {
  encode(ConnectData{.host_id = settings_.host_id,
                     .controller_id = queue == 0 ? ConnectData::kAnyController : controller_,
                     .subsystem = settings_.subsystem,
                     .host = settings_.host},
         std::span<std::byte, ConnectData::kSize>(scratch_.data(), ConnectData::kSize));
  AdminCommand command{.data = describe_scratch(ConnectData::kSize)};
  put_connect({.queue_id = queue,
               .commands = commands,
               .keep_alive_ms = queue == 0 ? settings_.keep_alive_ms : 0},
              command);
  return command;
}

DataDescriptor Initiator::describe_scratch(std::uint32_t bytes) const {
  return {.kind = DataDescriptor::Kind::keyed,
          .address = scratch_.address(),
          .bytes = bytes,
          .key = scratch_.remote_key};
}

ByteSpan Initiator::add_to_arena(ByteSpan bytes) {
  VERBATIM_ASSERT(arena_.size() + bytes.size() <= kArenaBytes);
  const std::size_t at = arena_.size();
  arena_.insert(arena_.end(), bytes.begin(), bytes.end());
  return ByteSpan(arena_).subspan(at);
}

void Initiator::send_admin(Channel channel, AdminCommand command, InitiatorOutput& out) {
  std::array<std::byte, AdminCommand::kSize> bytes{};
  encode(command, bytes);
  out.on(channel).push(Send{.header = add_to_arena(bytes)});
}

void Initiator::go(Step step, AdminCommand command, InitiatorOutput& out) {
  step_ = step;
  command.id = kAdminId;
  send_admin(kAdmin, command, out);
}

void Initiator::ask_for(Step step, Property property, InitiatorOutput& out) {
  AdminCommand command;
  put_property(FabricsType::property_get, {property, property == Property::capabilities, 0},
               command);
  go(step, command, out);
}

void Initiator::set(Step step, std::uint64_t value, InitiatorOutput& out) {
  AdminCommand command;
  put_property(FabricsType::property_set, {Property::configuration, false, value}, command);
  go(step, command, out);
}

void Initiator::identify(Step step, IdentifyKind kind, std::uint32_t space, InitiatorOutput& out) {
  std::memset(scratch_.data(), 0, kIdentifyBytes);
  AdminCommand command{.opcode = AdminOpcode::identify,
                       .namespace_id = space,
                       .data = describe_scratch(kIdentifyBytes)};
  command.dwords[0] = raw(kind);
  go(step, command, out);
}

ReceiveUse Initiator::on_message(Channel channel, const Message& message, TimeNs now,
                                 InitiatorOutput& out) {
  arena_.clear();
  if (is_closing_) return ReceiveUse::done;
  const auto completion = decode_completion(message.bytes());
  if (!completion) {
    close(fmt::format("a response of {} bytes: 16 are expected", message.bytes().size()), false,
          out);
  } else if (channel == kAdmin) {
    on_admin(*completion, now, out);
  } else {
    on_io(*completion, out);
  }
  return ReceiveUse::done;
}

void Initiator::on_admin(const Completion& completion, TimeNs now, InitiatorOutput& out) {
  if (completion.command == kKeepAliveId) return static_cast<void>(is_asked_ = false);
  if (completion.command == kAccessId && is_access_asked_) return on_access_log(completion);
  if (completion.command == kEventId && access_group_ != 0) return on_event(completion, out);
  if (completion.command == kPassedId && std::exchange(is_passing_, false))
    return static_cast<void>(passed_answer_ = completion);
  const bool is_waited_for = step_ != Step::io_connect && step_ != Step::serving;
  if (completion.command != kAdminId || !is_waited_for)
    return close(fmt::format("the target answers admin command {}, which is not under way",
                             raw(completion.command)),
                 false, out);
  if (completion.status == Status::success) return on_step(completion, now, out);
  was_refused_ = true;
  if (step_ == Step::connect)
    return close(words_of_connect(completion.status),
                 completion.status != Status::connect_controller_busy, out);
  if (step_ == Step::space && completion.status == Status::invalid_namespace)
    return close(fmt::format("the subsystem has no namespace {}", settings_.namespace_id), true,
                 out);
  close(fmt::format("the target refuses step {} of the login, status {:#x}", raw(step_),
                    raw(completion.status)),
        false, out);
}

void Initiator::on_step(const Completion& completion, TimeNs now, InitiatorOutput& out) {
  switch (step_) {
    case Step::connect:
      controller_ = static_cast<std::uint16_t>(completion.result);
      return ask_for(Step::capabilities, Property::capabilities, out);
    case Step::capabilities:
      return take_capabilities(completion.result, out);
    case Step::enable:
      return ask_for(Step::ready, Property::status, out);
    case Step::ready:
      return take_status(completion.result, now, out);
    case Step::controller:
      return take_controller(out);
    case Step::queues:
      if (!settings_.has_disk) return begin_io(out);
      return identify(Step::space, IdentifyKind::space, settings_.namespace_id, out);
    case Step::space:
      return take_space(out);
    case Step::access:
      take_access();
      if ((found_.notices & kAccessNotice) == 0) return begin_io(out);
      return go(Step::events, event_settings(), out);
    case Step::events:
      return begin_io(out);
    case Step::shutdown:
      is_closing_ = true;
      out.on(kAdmin).push(Disconnect{""});
      out.on(kIo).push(Disconnect{""});
      return;
    case Step::io_connect:
    case Step::serving:
      return;
  }
}

void Initiator::take_capabilities(std::uint64_t capabilities, InitiatorOutput& out) {
  constexpr std::uint64_t kNvmCommands = std::uint64_t{1} << 37;
  const bool has_io = settings_.has_disk || settings_.passes_io;
  if (has_io && (capabilities & kNvmCommands) == 0)
    return close("the controller has no NVM command set: it is for discovery", true, out);
  const auto most = static_cast<std::uint32_t>(capabilities & 0xffff) + 1;  // MQES
  entries_ = static_cast<std::uint16_t>(std::min<std::uint32_t>(entries_, most));
  if (entries_ < 2) return close("the target has queues of one entry: 2 are needed", true, out);
  set(Step::enable, kEnable, out);
}

void Initiator::take_status(std::uint64_t status, TimeNs now, InitiatorOutput& out) {
  constexpr std::uint64_t kReady = 0x1, kFatal = 0x2;
  if ((status & kFatal) != 0) return close("the controller has failed (CSTS.CFS)", false, out);
  if ((status & kReady) != 0) return identify(Step::controller, IdentifyKind::controller, 0, out);
  is_not_ready_ = true;
  next_look_ = now + kReadyAgain;
}

void Initiator::take_controller(InitiatorOutput& out) {
  const std::span<const std::byte, kIdentifyBytes> page(scratch_.data(), kIdentifyBytes);
  found_ = decode_controller(page);
  names_ = decode_names(page);
  if (!settings_.has_disk && !settings_.passes_io) {
    step_ = Step::serving;
    facts_.emplace();
    return;
  }
  if (!found_.has_keyed_descriptors)
    return close("the target has no keyed SGLs, which RDMA needs", true, out);
  AdminCommand command{.opcode = AdminOpcode::set_features};
  command.dwords[0] = kQueueCount;
  command.dwords[1] = 0;  // One submission and one completion queue.
  go(Step::queues, command, out);
}

void Initiator::take_space(InitiatorOutput& out) {
  const FoundSpace space =
      decode_space(std::span<const std::byte, kIdentifyBytes>(scratch_.data(), kIdentifyBytes));
  if (space.blocks == 0)
    return close(fmt::format("the subsystem has no namespace {}", settings_.namespace_id), true,
                 out);
  if (space.block_shift < 9 || space.block_shift > 12 || space.metadata_bytes != 0)
    return close(fmt::format("blocks of 2^{} bytes with {} of metadata: we have 512 to 4096 and 0",
                             space.block_shift, space.metadata_bytes),
                 true, out);
  if (space.blocks >> (63 - space.block_shift) != 0)
    return close(fmt::format("{} blocks are too many", space.blocks), true, out);
  constexpr std::uint32_t kPageShift = 12, kTransferShiftMax = 18;
  const std::uint32_t shift =
      found_.transfer_shift == 0 ? kTransferShiftMax : found_.transfer_shift;
  const std::uint32_t block = 1u << space.block_shift;
  known_ = {
      .bytes = space.blocks << space.block_shift,
      .block_bytes = block,
      .transfer_bytes_max = 1u << std::min(shift + kPageShift, kTransferShiftMax + kPageShift),
      .clear_bytes_max = std::uint64_t{65536} * block,
      .requests_max = entries_ - 1u,
      .is_read_only = space.is_read_only,
      // Its range travels in the capsule.
      .can_discard = found_.can_discard && found_.capsule_bytes >= Command::kSize + 16,
      .can_write_zeroes = found_.can_write_zeroes,
      .can_write_stable = true,
      .name = found_.name,
      .identity = identity_of(settings_, names_, space)};
  if (!found_.tells_access || space.access_group == 0) return begin_io(out);
  access_group_ = space.access_group;
  go(Step::access, access_log(), out);
}

void Initiator::begin_io(InitiatorOutput& out) {
  step_ = Step::io_connect;
  io_.resize(entries_);
  // One entry stays free, or the queue would look empty when it is full.
  for (std::uint16_t i = entries_; i-- > 1;) free_.push_back(i);
  out.connect.push(
      {.channel = kIo,
       .private_data =
           encode(QueueRequest{.queue_id = 1, .receives = entries_, .commands = entries_}),
       .sizes = {.sends = 2u * entries_, .receives = entries_, .receive_bytes = kReceiveBytes}});
}

void Initiator::on_time(TimeNs now, InitiatorOutput& out) {
  arena_.clear();
  if (now < next_look_) return;
  next_look_ = now + kLook;
  if (is_closing_) return;
  if (!facts_) {
    if (elapsed(began_, now) >= kLoginPatience)
      return close(is_established_ ? "the target does not finish the login within 15 s"
                                   : "nobody answers there within 15 s",
                   false, out);
    if (std::exchange(is_not_ready_, false)) ask_for(Step::ready, Property::status, out);
    return;
  }
  if (std::ranges::any_of(io_, [&](const Entry& entry) {
        return entry.is_taken && elapsed(entry.sent_at, now) >= kCommandPatience;
      }))
    return close("the target does not answer a command within 30 s", false, out);
  if (path_state() == storage::PathState::none) look_at_access(out);
  if (is_passing_ && elapsed(passed_at_, now) >= kCommandPatience)
    return close("the target does not answer a program's command within 30 s", false, out);
  if (settings_.keep_alive_ms == 0 || elapsed(asked_at_, now) < keep_alive()) return;
  if (is_asked_)
    return close(fmt::format("the target does not answer Keep Alive within {} ms",
                             keep_alive() / kMillisecond),
                 false, out);
  is_asked_ = true;
  asked_at_ = now;
  send_admin(kAdmin, {.opcode = AdminOpcode::keep_alive, .id = kKeepAliveId}, out);
}

bool Initiator::pass(Channel channel, AdminCommand command, const storage::PeerMemory& data,
                     TimeNs now, InitiatorOutput& out) {
  arena_.clear();
  const bool has_queue = channel == kAdmin || (settings_.passes_io && !settings_.has_disk);
  if (step_ != Step::serving || is_closing_ || is_passing_ || !has_queue) return false;
  is_passing_ = true;
  passed_at_ = now;
  command.id = kPassedId;
  command.data = {};
  if (data.bytes() != 0)
    command.data = {.kind = DataDescriptor::Kind::keyed,
                    .address = data.address(),
                    .bytes = data.bytes(),
                    .key = data.remote_key};
  send_admin(channel, command, out);
  return true;
}

void Initiator::log_out(TimeNs, InitiatorOutput& out) {
  arena_.clear();
  if (is_closing_ || step_ == Step::shutdown) return;
  if (step_ == Step::serving) return set(Step::shutdown, kShutDown, out);
  is_closing_ = true;
  out.on(kAdmin).push(Disconnect{""});
}

void Initiator::close(std::string words, bool is_final, InitiatorOutput& out) {
  is_closing_ = true;
  failure_ = {std::move(words), is_final};
  out.on(kAdmin).push(Disconnect{"the session is over"});
}

}  // namespace verbatim::ulp::nvmeof
