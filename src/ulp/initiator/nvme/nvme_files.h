#pragma once

#include <cstdint>
#include <string>

#include "ulp/initiator/files.h"
#include "ulp/initiator/nvme/nvme_controller.h"

namespace verbatim::ulp::initiator {

/// What programs read of controllers, subsystems and namespaces in /sys, and their devices in /dev,
/// as Linux 6.1 has them with multipath.
class NvmeFiles {
 public:
  explicit NvmeFiles(Files& files);

  void show_controller(std::uint32_t number, const NvmeController& controller);
  void show_state(std::uint32_t number, const NvmeController& controller);
  void show_subsystem(std::uint32_t number, const NvmeController& controller);
  /// The controller is one of the subsystem's.
  void show_member(std::uint32_t subsystem, std::uint32_t controller);
  /// `device`: "nvme0n1"; with its path by the controller.
  void show_space(std::uint32_t subsystem, std::uint32_t controller, std::uint32_t device,
                  const NvmeSpace& space);
  void hide_path(std::uint32_t subsystem, std::uint32_t controller, std::uint32_t device);
  void hide_device(std::uint32_t subsystem, std::uint32_t device);
  void hide_controller(std::uint32_t subsystem, std::uint32_t controller);
  void hide_subsystem(std::uint32_t number);

 private:
  void put_line(const std::string& path, const std::string& text) { files_.put(path, text + "\n"); }
  Files& files_;
};

}  // namespace verbatim::ulp::initiator
