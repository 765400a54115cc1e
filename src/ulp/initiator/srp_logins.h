#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ulp/initiator/disk_process.h"
#include "ulp/initiator/files.h"
#include "ulp/initiator/links.h"
#include "ulp/srp/initiator/add_target_line.h"

namespace verbatim::ulp::initiator {

/// Targets of SRP that programs have written to add_target: hosts of SCSI, each with a disk for
/// each unit. As Linux's ib_srp answers it, and shows it to srp_daemon.
class SrpLogins final : public service::Source {
 public:
  /// An errno value; 0: it is logged in, and its disks are served.
  using Done = std::function<void(int code)>;
  /// All outlive it. `node`: the first part of the disks' names.
  SrpLogins(service::Loop& loop, Adapter& adapter, Files& files, std::string node);
  ~SrpLogins();

  /// `device`, `port`: of srp-DEVICE-PORT.
  void add(const std::string& line, const std::string& device, const std::string& port, Done done);
  /// Ends the login that is shown as srp_remote_ports/port-NUMBER:1.
  void remove(std::uint32_t number, Done done);
  bool has(std::uint32_t number) const;

  bool is_idle() const { return hosts_.empty(); }
  /// Ends all of them; then it is idle.
  void stop();
  nlohmann::json status() const;

  TimeNs deadline() const override { return has_changed_ ? 0 : kNever; }
  void on_time(TimeNs now) override;

 private:
  enum class State : std::uint8_t { asking, leaving, serving, ending };
  struct Host {
    std::uint32_t number = 0;
    State state = State::asking;
    srp::AddTarget target;
    std::string device, port;
    std::unique_ptr<Link> link;  // Asks for the units.
    std::vector<std::uint16_t> units;
    std::vector<std::unique_ptr<DiskProcess>> disks;
    Done added, removed;
  };
  Result<void> ask_units(Host& host);
  /// False: it is over.
  bool advance(Host& host, TimeNs now);
  void start_disks(Host& host);
  bool serve(Host& host);
  void show(const Host& host);
  void hide(const Host& host);

  service::Loop& loop_;
  Adapter& adapter_;
  Files& files_;
  const std::string node_;
  std::vector<std::unique_ptr<Host>> hosts_;
  bool has_changed_ = false;
};

}  // namespace verbatim::ulp::initiator
