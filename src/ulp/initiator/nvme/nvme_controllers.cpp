#include "ulp/initiator/nvme/nvme_controllers.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/log.h"

namespace verbatim::ulp::initiator {

using State = NvmeController::State;

namespace {

void call_all(std::vector<NvmeControllers::Done>& all, int code) {
  for (const auto& done : std::exchange(all, {})) done(code);
}

bool has_space(const std::vector<NvmeSpace>& spaces, std::uint32_t id) {
  return std::ranges::any_of(spaces, [&](const NvmeSpace& one) { return one.id == id; });
}

bool is_same(const FabricsOptions& a, const FabricsOptions& b) {
  return a.subsystem == b.subsystem && a.to == b.to && a.host == b.host;
}

}  // namespace

NvmeControllers::NvmeControllers(service::Loop& loop, Adapter& adapter, Files& files,
                                 std::string node)
    : loop_(loop), adapter_(adapter), files_(files), node_(std::move(node)) {
  loop_.add(*this);
}

NvmeControllers::~NvmeControllers() { loop_.remove(*this); }

NvmeControllers::Controller* NvmeControllers::find(std::uint32_t number) const {
  const auto found =
      std::ranges::find(controllers_, number, [](const auto& one) { return one->number; });
  return found == controllers_.end() ? nullptr : found->get();
}

/// The lowest that is free; the machine's own devices stay seen.
std::uint32_t NvmeControllers::free_number() const {
  std::uint32_t number = 0;
  const auto is_taken = [&] {
    return find(number) != nullptr ||
           access(fmt::format("/dev/nvme{}", number).c_str(), F_OK) == 0 ||
           std::ranges::any_of(subsystems_, [&](const auto& one) { return one->number == number; });
  };
  while (is_taken()) ++number;
  return number;
}

void NvmeControllers::connect(const std::string& text, Connected done) {
  const auto options = parse_fabrics_options(text);
  if (!options) {
    log(LogLevel::warn, "nvme-fabrics: {}", options.error().text);
    return done(options.error().code, "");
  }
  for (const auto& one : controllers_)
    if (is_same(one->engine->options(), *options) && !options->may_repeat)
      return done(EALREADY, "");
  const auto links = adapter_.open();
  auto controller = std::make_unique<Controller>();
  controller->number = free_number();
  if (!links) return done(links.error().code, "");
  controller->engine =
      std::make_unique<NvmeController>(**links, *options, [this] { has_changed_ = true; });
  if (const auto begun = controller->engine->begin(loop_.now()); !begun)
    return done(begun.error().code, "");
  controller->connected = std::move(done);
  controllers_.push_back(std::move(controller));
}

TimeNs NvmeControllers::deadline() const {
  if (has_changed_) return 0;
  TimeNs first = kNever;
  for (const auto& one : controllers_) first = std::min(first, one->engine->deadline());
  return first;
}

void NvmeControllers::on_time(TimeNs now) {
  has_changed_ = false;
  for (const auto& one : controllers_) one->engine->advance(now);
  std::erase_if(controllers_, [&](const auto& one) { return !advance(*one, now); });
  std::erase_if(subsystems_, [&](const auto& one) { return is_over(*one); });
}

bool NvmeControllers::advance(Controller& controller, TimeNs now) {
  NvmeController& engine = *controller.engine;
  const State state = engine.state();
  if (state == State::live) call_all(controller.on_live, 0);
  switch (controller.phase) {
    case Phase::connecting:
      if (state == State::over) return fail(controller);
      if (state != State::live) return true;
      controller.phase = Phase::asking;
      engine.ask_spaces([this, number = controller.number](const std::vector<NvmeSpace>& spaces) {
        Controller* const found = find(number);
        if (found == nullptr || found->phase != Phase::asking) return;
        join(*found);
        take_spaces(*found, spaces);
      });
      return true;
    case Phase::asking:
      return true;
    case Phase::starting:
      if (!std::ranges::all_of(controller.subsystem->disks, [](const Disk& disk) {
            return disk.process == nullptr || disk.process->is_settled();
          }))
        return true;
      show(controller);
      return true;
    case Phase::serving:
      if (state == State::over) leave(controller, now);
      if (std::exchange(controller.shown, state) != state)
        files_.show_state(controller.number, engine);
      return true;
    case Phase::leaving:
      if (state != State::over) return true;
      return !drop(controller);
  }
  return true;
}

bool NvmeControllers::fail(Controller& controller) {
  log(LogLevel::warn, "nvme-fabrics, {}: {}", controller.engine->options().subsystem,
      controller.engine->words());
  controller.connected(controller.engine->was_refused() ? EIO : ECONNRESET, "");
  return false;
}

void NvmeControllers::join(Controller& controller) {
  const std::string& name = controller.engine->options().subsystem;
  auto found = std::ranges::find(subsystems_, name, [](const auto& one) { return one->name; });
  if (found == subsystems_.end() || controller.engine->options().is_discovery)
    found = subsystems_.insert(subsystems_.end(), std::make_unique<Subsystem>(Subsystem{
                                                      .number = controller.number, .name = name}));
  controller.subsystem = found->get();
  ++controller.subsystem->users;
}

/// Disks of new namespaces begin, those of removed ones end.
void NvmeControllers::take_spaces(Controller& controller, const std::vector<NvmeSpace>& spaces) {
  auto& disks = controller.subsystem->disks;
  for (Disk& disk : disks) {
    if (has_space(spaces, disk.space.id)) continue;
    if (disk.process != nullptr) disk.process->stop();
    files_.hide_path(controller.subsystem->number, controller.number, disk.device);
    files_.hide_device(controller.subsystem->number, disk.device);
  }
  std::erase_if(disks, [&](const Disk& disk) { return !has_space(spaces, disk.space.id); });
  for (const NvmeSpace& space : spaces) {
    if (std::ranges::any_of(disks, [&](const Disk& disk) { return disk.space.id == space.id; }))
      continue;
    std::uint32_t device = 1;
    while (std::ranges::any_of(disks, [&](const Disk& disk) { return disk.device == device; }))
      ++device;
    disks.push_back({.device = device, .space = space, .process = nullptr});
    start_disk(controller, disks.back());
  }
  controller.phase = Phase::starting;
  has_changed_ = true;
}

void NvmeControllers::start_disk(const Controller& controller, Disk& disk) {
  const FabricsOptions& options = controller.engine->options();
  DiskProcess::Options settings{
      .url = fmt::format("nvme://{}/{}/{}", options.to.text(), options.subsystem, disk.space.id),
      .name = fmt::format("{}-nvme{}n{}", node_, controller.subsystem->number, disk.device),
      .more = {"--initiator", options.host}};
  // The controller and the disk are one host to reservations.
  if (!options.host_id.empty())
    settings.more.insert(settings.more.end(), {"--host-id", options.host_id});
  auto process = DiskProcess::start(loop_, settings, [this] { has_changed_ = true; });
  if (process) {
    disk.process = std::move(*process);
  } else {
    log(LogLevel::warn, "{}: {}", settings.url, process.error().text);
  }
}

void NvmeControllers::show(Controller& controller) {
  Subsystem& subsystem = *controller.subsystem;
  files_.show_controller(controller.number, *controller.engine);
  files_.show_subsystem(subsystem.number, *controller.engine);
  files_.show_member(subsystem.number, controller.number);
  for (const Disk& disk : subsystem.disks) {
    files_.show_space(subsystem.number, controller.number, disk.device, disk.space);
    if (disk.process != nullptr && disk.process->is_over())
      log(LogLevel::warn, "namespace {} of {} has no disk: {}", disk.space.id, subsystem.name,
          disk.process->words());
  }
  controller.phase = Phase::serving;
  call_all(controller.on_spaces, 0);
  controller.shown = controller.engine->state();
  if (controller.connected != nullptr)
    std::exchange(controller.connected, nullptr)(
        0, fmt::format("instance={},cntlid={}\n", controller.number, controller.engine->id()));
}

void NvmeControllers::leave(Controller& controller, TimeNs now) {
  controller.phase = Phase::leaving;
  controller.engine->leave(now);
  if (controller.subsystem != nullptr && controller.subsystem->users == 1)
    for (const Disk& disk : controller.subsystem->disks)
      if (disk.process != nullptr) disk.process->stop();
  has_changed_ = true;
}

/// False: not yet, its subsystem's disks are still there.
bool NvmeControllers::drop(Controller& controller) {
  if (Subsystem* const subsystem = controller.subsystem) {
    const bool has_disks = std::ranges::any_of(subsystem->disks, [](const Disk& disk) {
      return disk.process != nullptr && !disk.process->is_over();
    });
    if (subsystem->users == 1 && has_disks) return false;
    for (const Disk& disk : subsystem->disks)
      files_.hide_path(subsystem->number, controller.number, disk.device);
    files_.hide_controller(subsystem->number, controller.number);
    --subsystem->users;
  }
  if (const auto connected = std::exchange(controller.connected, nullptr))
    connected(ECONNRESET, "");
  call_all(controller.on_live, ENODEV);
  call_all(controller.on_spaces, ENODEV);
  call_all(controller.on_gone, 0);
  return true;
}

bool NvmeControllers::is_over(const Subsystem& subsystem) {
  if (subsystem.users != 0) return false;
  for (const Disk& disk : subsystem.disks) files_.hide_device(subsystem.number, disk.device);
  files_.hide_subsystem(subsystem.number);
  return true;
}

void NvmeControllers::stop() {
  for (const auto& one : controllers_)
    if (one->phase != Phase::leaving) leave(*one, loop_.now());
}

nlohmann::json NvmeControllers::status() const {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& one : controllers_)
    all.push_back({{"controller", fmt::format("nvme{}", one->number)},
                   {"subsystem", one->engine->options().subsystem},
                   {"address", one->engine->options().place()},
                   {"state", one->engine->state_text()}});
  return all;
}

}  // namespace verbatim::ulp::initiator
