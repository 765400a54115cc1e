#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ulp/initiator/disk_process.h"
#include "ulp/initiator/nvme/device_request.h"
#include "ulp/initiator/nvme/nvme_controller.h"
#include "ulp/initiator/nvme/nvme_files.h"
#include "ulp/initiator/program_socket.h"

namespace verbatim::ulp::initiator {

/// Controllers that programs have connected to by /dev/nvme-fabrics, with the disks of their
/// subsystems. As Linux answers it, and shows it to nvme-cli.
class NvmeControllers final : public service::Source {
 public:
  using Done = std::function<void(int code)>;
  /// `text`: what is read from /dev/nvme-fabrics then.
  using Connected = std::function<void(int code, const std::string& text)>;
  using Controlled = std::function<void(int code, const std::string& answer)>;
  /// All outlive it. `node`: the first part of the disks' names.
  NvmeControllers(service::Loop& loop, Adapter& adapter, Files& files, std::string node);
  ~NvmeControllers();

  void connect(const std::string& options, Connected done);
  /// A file that may be written, or a device.
  bool has(const std::string& path) const;
  /// write(2) to delete_controller, reset_controller or rescan_controller.
  void write(const std::string& path, std::string_view text, Done done);
  void control(OpenFile file, const std::string& device, const DeviceRequest& request,
               Controlled done);
  /// The program has closed it.
  void forget(OpenFile file) { positions_.erase(file); }

  bool is_idle() const { return controllers_.empty() && subsystems_.empty(); }
  /// Ends all of them; then it is idle.
  void stop();
  nlohmann::json status() const;

  TimeNs deadline() const override;
  void on_time(TimeNs now) override;

 private:
  enum class Phase : std::uint8_t { connecting, asking, starting, serving, leaving };
  struct Disk {
    std::uint32_t device = 0;  // The last number of "nvme0n1".
    NvmeSpace space;
    std::unique_ptr<DiskProcess> process;  // Null: it could not be started, or has ended.
  };
  struct Subsystem {
    std::uint32_t number = 0;
    std::string name;
    std::uint32_t users = 0;
    std::vector<Disk> disks;
  };
  struct Controller {
    std::uint32_t number = 0;
    Phase phase = Phase::connecting;
    NvmeController::State shown{};
    std::unique_ptr<NvmeController> engine;
    Subsystem* subsystem = nullptr;  // From `starting` on.
    Connected connected;
    std::vector<Done> on_live, on_gone, on_spaces;
  };
  /// False: it is over.
  bool advance(Controller& controller, TimeNs now);
  bool fail(Controller& controller);
  void join(Controller& controller);
  void take_spaces(Controller& controller, const std::vector<NvmeSpace>& spaces);
  void start_disk(const Controller& controller, Disk& disk);
  void show(Controller& controller);
  void leave(Controller& controller, TimeNs now);
  bool drop(Controller& controller);
  bool is_over(const Subsystem& subsystem);
  std::uint32_t free_number() const;
  Controller* find(std::uint32_t number) const;
  const Disk* find_disk(std::uint32_t subsystem, std::uint32_t device) const;
  Controller* of_subsystem(std::uint32_t subsystem) const;
  void control_disk(OpenFile file, const Disk& disk, Controller& controller,
                    const DeviceRequest& request, const Controlled& done);
  void pass_io(Controller& controller, const Disk* disk, const DeviceRequest& request,
               Controlled done);
  void move(OpenFile file, const Disk& disk, Controller& controller, const DeviceRequest& request,
            const Controlled& done);
  static void clear(const Disk& disk, Controller& controller, const DeviceRequest& request,
                    const Controlled& done);
  void seek(OpenFile file, const Disk& disk, const DeviceRequest& request, const Controlled& done);

  service::Loop& loop_;
  Adapter& adapter_;
  NvmeFiles files_;
  const std::string node_;
  std::vector<std::unique_ptr<Controller>> controllers_;
  std::vector<std::unique_ptr<Subsystem>> subsystems_;
  std::map<OpenFile, std::uint64_t> positions_;  // Of block devices that are read or written.
  bool has_changed_ = false;
};

}  // namespace verbatim::ulp::initiator
