#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fmt/format.h>

#include "ulp/initiator/nvme/device_answer.h"
#include "ulp/initiator/nvme/nvme_controllers.h"

/// What programs ask of devices and of files in /sys that exist while a controller does.
namespace verbatim::ulp::initiator {
namespace {

static_assert(DeviceRequest::kDataBytesMax <= Link::kBytes);

std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// "/sys/class/nvme/nvme0/delete_controller".
struct ControllerFile {
  std::uint32_t controller = 0;
  std::string_view name;
};
std::optional<ControllerFile> controller_file_of(std::string_view path) {
  constexpr std::string_view kFolder = "/sys/class/nvme/nvme";
  if (!path.starts_with(kFolder)) return {};
  path.remove_prefix(kFolder.size());
  const auto number = take_number(path);
  if (!number || !path.starts_with('/')) return {};
  return ControllerFile{*number, path.substr(1)};
}

/// "/dev/nvme0", "/dev/nvme0n1", "/dev/ng0n1".
struct DeviceName {
  std::uint32_t first = 0;  // A controller, or a subsystem.
  std::optional<std::uint32_t> space;
};
std::optional<DeviceName> device_of(std::string_view path) {
  bool is_one = false;
  for (const std::string_view start : {"/dev/nvme", "/dev/ng"}) {
    if (is_one || !path.starts_with(start)) continue;
    is_one = true;
    path.remove_prefix(start.size());
  }
  const auto first = is_one ? take_number(path) : std::nullopt;
  if (!first) return {};
  if (path.empty()) return DeviceName{*first, {}};
  if (!path.starts_with('n')) return {};
  path.remove_prefix(1);
  const auto space = take_number(path);
  if (!space || !path.empty()) return {};
  return DeviceName{*first, space};
}

}  // namespace

const NvmeControllers::Disk* NvmeControllers::find_disk(std::uint32_t subsystem,
                                                        std::uint32_t device) const {
  for (const auto& one : subsystems_) {
    if (one->number != subsystem) continue;
    const auto found = std::ranges::find(one->disks, device, &Disk::device);
    return found == one->disks.end() ? nullptr : &*found;
  }
  return nullptr;
}

NvmeControllers::Controller* NvmeControllers::of_subsystem(std::uint32_t subsystem) const {
  const auto found = std::ranges::find_if(controllers_, [&](const auto& one) {
    return one->subsystem != nullptr && one->subsystem->number == subsystem &&
           one->engine->state() == NvmeController::State::live;
  });
  return found == controllers_.end() ? nullptr : found->get();
}

bool NvmeControllers::has(const std::string& path) const {
  if (const auto file = controller_file_of(path)) {
    constexpr std::string_view kWritten[] = {"delete_controller", "reset_controller",
                                             "rescan_controller"};
    return std::ranges::find(kWritten, file->name) != std::end(kWritten) &&
           find(file->controller) != nullptr;
  }
  const auto device = device_of(path);
  if (!device) return false;
  return device->space ? find_disk(device->first, *device->space) != nullptr
                       : find(device->first) != nullptr;
}

void NvmeControllers::write(const std::string& path, std::string_view text, Done done) {
  const auto file = controller_file_of(path);
  Controller* const controller = file ? find(file->controller) : nullptr;
  if (controller == nullptr || controller->phase == Phase::leaving) return done(ENODEV);
  if (file->name == "rescan_controller" && text.starts_with('1')) {
    controller->on_spaces.push_back(std::move(done));
    return controller->engine->ask_spaces(
        [this, number = file->controller](const std::vector<NvmeSpace>& spaces) {
          Controller* const found = find(number);
          if (found != nullptr && found->phase == Phase::serving) take_spaces(*found, spaces);
        });
  }
  has_changed_ = true;
  if (file->name == "reset_controller" && text.starts_with('1')) {
    if (controller->engine->state() != NvmeController::State::live) return done(EBUSY);
    controller->on_live.push_back(std::move(done));
    return controller->engine->reset(loop_.now());
  }
  if (file->name != "delete_controller" || !text.starts_with('1')) return done(EINVAL);
  controller->on_gone.push_back(std::move(done));
  leave(*controller, loop_.now());
}

void NvmeControllers::control(OpenFile file, const std::string& path, const DeviceRequest& request,
                              Controlled done) {
  const auto device = device_of(path);
  const bool is_disk = device && device->space;
  const Disk* const disk = is_disk ? find_disk(device->first, *device->space) : nullptr;
  if (is_disk && disk == nullptr) return done(ENODEV, "");
  if (is_disk && request.call == DeviceCall::id)
    return done(0, answer_of(static_cast<int>(disk->space.id)));
  Controller* const controller = !device   ? nullptr
                                 : is_disk ? of_subsystem(device->first)
                                           : find(device->first);
  if (controller == nullptr) return done(ENODEV, "");
  const auto written = [done](int code) { done(code, answer_of(0)); };
  const std::string folder = fmt::format("/sys/class/nvme/nvme{}/", controller->number);
  switch (request.call) {
    case DeviceCall::admin:
    case DeviceCall::admin_64:
      return controller->engine->ask(request.command, request.data_bytes, request.data,
                                     passed(request, std::move(done)));
    case DeviceCall::io:
    case DeviceCall::io_64:
      return pass_io(*controller, disk, request, std::move(done));
    case DeviceCall::reset:
      return write(folder + "reset_controller", "1", written);
    case DeviceCall::rescan:
      return write(folder + "rescan_controller", "1", written);
    default:
      if (disk == nullptr || !path.starts_with("/dev/nvme")) return done(ENOTTY, "");
      return control_disk(file, *disk, *controller, request, std::move(done));
  }
}

/// As Linux: a namespace's device takes commands to it alone, a controller's those to its only
/// namespace.
void NvmeControllers::pass_io(Controller& controller, const Disk* disk,
                              const DeviceRequest& request, Controlled done) {
  const auto& disks = controller.subsystem->disks;
  if (disk == nullptr && disks.empty()) return done(ENOTTY, "");
  if (disk == nullptr && disks.size() > 1) return done(EINVAL, "");
  if ((disk == nullptr ? disks.front() : *disk).space.id != request.command.namespace_id)
    return done(EINVAL, "");
  controller.engine->ask_io(request.command, request.data_bytes, request.data,
                            passed(request, std::move(done)));
}

}  // namespace verbatim::ulp::initiator
