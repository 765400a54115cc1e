#include "ulp/initiator/nvme/nvme_files.h"

#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::initiator {
namespace {

constexpr const char* kWriteOnly[] = {"delete_controller", "rescan_controller", "reset_controller"};
constexpr const char* kTypes[] = {"reserved", "io", "discovery", "admin"};
constexpr const char* kDiscoveryTypes[] = {"none", "ddc", "cdc"};

template <std::size_t Count>
const char* word_of(const char* const (&words)[Count], std::size_t number) {
  return number < Count ? words[number] : "reserved";
}

std::string controller_folder(std::uint32_t number) {
  return fmt::format("/sys/class/nvme/nvme{}", number);
}
std::string subsystem_folder(std::uint32_t number) {
  return fmt::format("/sys/class/nvme-subsystem/nvme-subsys{}", number);
}

std::string text_of(const nvmeof::Uuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        std::to_integer<unsigned>(uuid[i]));
  return text;
}

}  // namespace

NvmeFiles::NvmeFiles(Files& files) : files_(files) {
  for (const char* const folder :
       {"/sys/class/nvme", "/sys/class/nvme-subsystem", "/sys/class/nvme-fabrics/ctl"})
    files_.make_folder(folder);
}

void NvmeFiles::show_controller(std::uint32_t number, const NvmeController& controller) {
  const std::string folder = controller_folder(number) + "/";
  const FabricsOptions& options = controller.options();
  const auto& names = controller.names();
  const std::pair<const char*, std::string> files[] = {
      {"address", options.place()},
      {"cntlid", fmt::to_string(controller.id())},
      {"cntrltype", word_of(kTypes, names.type)},
      {"ctrl_loss_tmo", options.loss_s < 0 ? "off" : fmt::to_string(options.loss_s)},
      {"dctype", word_of(kDiscoveryTypes, names.discovery_type)},
      {"dev", fmt::format("244:{}", number)},
      {"fast_io_fail_tmo", "off"},
      {"firmware_rev", names.firmware},
      {"hostid", options.host_id},
      {"hostnqn", options.host},
      {"kato", fmt::to_string(options.is_discovery ? 0 : options.keep_alive_s)},
      {"model", names.model},
      {"numa_node", "-1"},
      {"queue_count", options.is_discovery ? "1" : "2"},
      {"reconnect_delay", fmt::to_string(options.reconnect_s)},
      {"serial", names.serial},
      {"sqsize", fmt::to_string(options.queue_entries - 1)},
      {"subsysnqn", options.subsystem},
      {"transport", "rdma"}};
  for (const auto& [name, text] : files) put_line(folder + name, text);
  for (const char* const name : kWriteOnly) files_.put(folder + name, "", 0200);
  show_state(number, controller);
  files_.put_device(fmt::format("/dev/nvme{}", number));
}

void NvmeFiles::show_state(std::uint32_t number, const NvmeController& controller) {
  put_line(controller_folder(number) + "/state", controller.state_text());
}

void NvmeFiles::show_subsystem(std::uint32_t number, const NvmeController& controller) {
  const std::string folder = subsystem_folder(number) + "/";
  const auto& names = controller.names();
  put_line(folder + "firmware_rev", names.firmware);
  put_line(folder + "iopolicy", "numa");
  put_line(folder + "model", names.model);
  put_line(folder + "serial", names.serial);
  put_line(folder + "subsysnqn", controller.options().subsystem);
  put_line(folder + "subsystype", controller.options().is_discovery ? "discovery" : "nvm");
}

void NvmeFiles::show_member(std::uint32_t subsystem, std::uint32_t controller) {
  files_.make_folder(fmt::format("{}/nvme{}", subsystem_folder(subsystem), controller));
}

void NvmeFiles::show_space(std::uint32_t subsystem, std::uint32_t controller, std::uint32_t device,
                           const NvmeSpace& space) {
  const std::string name = fmt::format("{}n{}", subsystem, device);
  const std::string sectors = fmt::to_string(space.blocks << space.block_shift >> 9);
  const std::string path =
      fmt::format("{}/nvme{}c{}n{}/", controller_folder(controller), subsystem, controller, device);
  const std::string head = fmt::format("{}/nvme{}/", subsystem_folder(subsystem), name);
  for (const std::string& folder : {path, head}) {
    put_line(folder + "nsid", fmt::to_string(space.id));
    put_line(folder + "size", sectors);
    put_line(folder + "ro", "0");
    put_line(folder + "uuid", text_of(space.uuid));
    put_line(folder + "wwid", "uuid." + text_of(space.uuid));
  }
  put_line(path + "ana_state", "optimized");
  put_line(path + "ana_grpid", "1");
  put_line(head + "dev", fmt::format("259:{}", device));
  put_line(fmt::format("{}/ng{}/dev", subsystem_folder(subsystem), name),
           fmt::format("243:{}", device));
  files_.put_device("/dev/nvme" + name);
  files_.put_device("/dev/ng" + name);
}

void NvmeFiles::hide_path(std::uint32_t subsystem, std::uint32_t controller, std::uint32_t device) {
  files_.remove(
      fmt::format("{}/nvme{}c{}n{}", controller_folder(controller), subsystem, controller, device));
}

void NvmeFiles::hide_device(std::uint32_t subsystem, std::uint32_t device) {
  const std::string name = fmt::format("{}n{}", subsystem, device);
  for (const char* const kind : {"nvme", "ng"}) {
    files_.remove(fmt::format("{}/{}{}", subsystem_folder(subsystem), kind, name));
    files_.remove(fmt::format("/dev/{}{}", kind, name));
  }
}

void NvmeFiles::hide_controller(std::uint32_t subsystem, std::uint32_t controller) {
  files_.remove(fmt::format("{}/nvme{}", subsystem_folder(subsystem), controller));
  files_.remove(controller_folder(controller));
  files_.remove(fmt::format("/dev/nvme{}", controller));
}

void NvmeFiles::hide_subsystem(std::uint32_t number) { files_.remove(subsystem_folder(number)); }

}  // namespace verbatim::ulp::initiator
