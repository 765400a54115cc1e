#include "ulp/nvmeof/target.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint32_t kInData = 1 << 16;
constexpr std::uint16_t kLastId = 0xffef;  // Higher ones are reserved (1.1, figure 19).

std::unexpected<ConnectRefusal> refuse(Status status, std::uint32_t result, std::string words) {
  return std::unexpected(ConnectRefusal{status, result, std::move(words)});
}

std::unexpected<ConnectRefusal> wrong(std::uint32_t result, std::string words) {
  return refuse(Status::connect_invalid_parameters, result, std::move(words));
}

}  // namespace

Result<Subsystem*> Target::add(Subsystem subsystem) {
  const auto has_its_name = [&](const auto& other) { return other->nqn() == subsystem.nqn(); };
  if (std::ranges::any_of(subsystems_, has_its_name))
    return verbatim::refuse(EEXIST, fmt::format("there is a {} already", subsystem.nqn()));
  tell_discovery();
  return subsystems_.emplace_back(std::make_unique<Subsystem>(std::move(subsystem))).get();
}

void Target::remove(Subsystem& subsystem) {
  subsystem.set({.is_hidden = true});
  refresh(subsystem);
  const auto found = std::ranges::find(subsystems_, &subsystem, &std::unique_ptr<Subsystem>::get);
  removed_.push_back(std::move(*found));
  subsystems_.erase(found);
}

void Target::forget_removed() {
  removed_.clear();
  for (const auto& subsystem : subsystems_) subsystem->forget_removed();
}

void Target::tell(const Subsystem& subsystem, std::uint32_t space,
                  std::span<const ReservationNotice> notices) {
  for (const auto& [host, event] : notices) {
    for (const auto& [id, controller] : controllers_) {
      if (controller->subsystem() != &subsystem || controller->host().host_id != host) continue;
      const auto mask = controller->reservation_masks.find(space);
      const std::uint32_t masked = mask == controller->reservation_masks.end() ? 0 : mask->second;
      if ((masked >> raw(event) & 1) == 0)
        controller->notices.reservation_changed(space, raw(event));
    }
  }
  wake();
}

void Target::tell_discovery() {
  ++generation_;
  for (const auto& [id, controller] : controllers_)
    if (controller->is_discovery()) controller->notices.tell(Notice::discovery_changed);
}

void Target::refresh(const Subsystem& subsystem) {
  tell_discovery();
  for (const auto& [id, controller] : controllers_) {
    if (controller->subsystem() != &subsystem) continue;
    if (!subsystem.admits(controller->host().host)) controller->end();
    controller->notices.spaces_changed(subsystem.changed_spaces());
    if (subsystem.has_changed_access()) controller->notices.tell(Notice::access_changed);
  }
}

Target::Connected Target::connect(const ConnectCommand& command, const ConnectData& data,
                                  const SocketAddress& own) {
  if (command.format != 0) {
    return refuse(Status::connect_incompatible_format, ConnectCommand::kFormatAt,
                  fmt::format("the host's Connect has format {}, we know 0", command.format));
  }
  if (data.host.empty())
    return wrong(kInData | ConnectData::kHostAt, "the host's NQN is empty, or longer than 223");
  auto connected =
      command.queue_id == 0 ? connect_admin(command, data, own) : connect_io(command, data);
  if (connected) (*connected)->set_queue(command.queue_id, true);
  return connected;
}

Target::Connected Target::connect_admin(const ConnectCommand& command, const ConnectData& data,
                                        const SocketAddress& own) {
  if (data.controller_id != ConnectData::kAnyController) {
    return wrong(
        kInData | ConnectData::kControllerAt,
        fmt::format("{} wants controller {}, we choose it", data.host, data.controller_id));
  }
  const Subsystem* subsystem = nullptr;
  if (data.subsystem != kDiscoveryNqn) {
    const auto found = std::ranges::find_if(subsystems_, [&](const auto& one) {
      return one->nqn() == data.subsystem && one->is_at(own);
    });
    if (found == subsystems_.end()) {
      return wrong(kInData | ConnectData::kSubsystemAt,
                   fmt::format("{} wants {}, which is not here", data.host, data.subsystem));
    }
    subsystem = found->get();
    if (!subsystem->admits(data.host)) {
      return refuse(Status::connect_invalid_host, kInData | ConnectData::kHostAt,
                    fmt::format("{} is not among the hosts of {}", data.host, data.subsystem));
    }
  }
  if (controllers_.size() >= limits_.controllers) {
    return refuse(
        Status::connect_controller_busy, 0,
        fmt::format("{} hosts have a controller, which is the most", limits_.controllers));
  }
  const std::uint16_t id = free_id();
  auto& controller = controllers_[id] =
      std::make_unique<Controller>(id, subsystem, data, command.keep_alive_ms, limits_);
  return controller.get();
}

/// The same host, of the same subsystem, or nobody learns that the controller is there (1.1, 3.3).
Target::Connected Target::connect_io(const ConnectCommand& command, const ConnectData& data) {
  const auto found = controllers_.find(data.controller_id);
  Controller* const controller = found == controllers_.end() ? nullptr : found->second.get();
  if (controller == nullptr || controller->is_discovery() || !controller->has_queue(0) ||
      controller->subsystem()->nqn() != data.subsystem || controller->must_end()) {
    return wrong(kInData | ConnectData::kControllerAt,
                 fmt::format("{} wants queue {} of controller {}, which it does not have",
                             data.host, command.queue_id, data.controller_id));
  }
  if (controller->host().host != data.host || controller->host().host_id != data.host_id) {
    return wrong(
        kInData | ConnectData::kHostAt,
        fmt::format("controller {} is another host's than {}", data.controller_id, data.host));
  }
  if (!controller->is_ready()) {
    return refuse(
        Status::command_sequence_error, 0,
        fmt::format("{} has not enabled controller {} yet", data.host, data.controller_id));
  }
  if (command.queue_id > limits_.io_queues || controller->has_queue(command.queue_id)) {
    return wrong(ConnectCommand::kQueueIdAt,
                 fmt::format("{} wants queue {}: it is there, or there are no more than {}",
                             data.host, command.queue_id, limits_.io_queues));
  }
  return controller;
}

void Target::disconnect(Controller& controller, std::uint16_t queue) {
  controller.set_queue(queue, false);
  if (controller.queue_count() == 0) controllers_.erase(controller.id());
}

/// Not the id that was free last: hosts that connect again get another.
std::uint16_t Target::free_id() {
  do {
    last_id_ = last_id_ >= kLastId ? std::uint16_t{1} : static_cast<std::uint16_t>(last_id_ + 1);
  } while (controllers_.contains(last_id_));
  return last_id_;
}

std::vector<const Subsystem*> Target::admitted(const std::string& host,
                                               const SocketAddress& own) const {
  std::vector<const Subsystem*> found;
  for (const auto& subsystem : subsystems_) {
    if (subsystem->admits(host) && subsystem->is_at(own)) found.push_back(subsystem.get());
  }
  return found;
}

}  // namespace verbatim::ulp::nvmeof
