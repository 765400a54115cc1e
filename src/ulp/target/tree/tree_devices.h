#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "service/loop.h"
#include "ulp/backstore/file_store.h"
#include "ulp/scsi/logical_unit.h"
#include "ulp/target/kept_reservations.h"
#include "ulp/target/runner.h"
#include "ulp/target/tree/alua/port_groups.h"
#include "ulp/target/tree/tree_part.h"

namespace verbatim::ulp::target {

/// What the tree's devices keep their blocks in: devices of core/, and files of namespaces. What is
/// removed stays until no session uses it.
class TreeDevices final : public TreePart, public service::Source {
 public:
  TreeDevices(Runner& runner, const rdma::Device& device, service::Loop& loop);
  ~TreeDevices() override;

  /// What a directory of the tree has once it is enabled.
  struct Device {
    std::unique_ptr<backstore::Store> store;
    storage::UnitId unit{};
    std::shared_ptr<scsi::Reservations> reservations = std::make_shared<scsi::Reservations>();
    std::shared_ptr<scsi::PortGroups> groups;  // Of core/ alone.
  };
  /// `follower`: told of attributes that initiators have changed, by their paths.
  void follow(std::function<void(const std::string&, std::string)> follower) {
    follower_ = std::move(follower);
  }
  PortNumbers& port_numbers() { return port_numbers_; }
  /// Where reservations are kept that outlive the process. Without it, none are.
  void keep_in(std::string folder) { folder_ = std::move(folder); }
  /// Null: it has none.
  const Device* find(const target_tree::Node& directory) const;
  /// Errors of opening the file. Its answers come to the runner.
  Result<std::unique_ptr<backstore::Store>> open_store(
      const std::string& file, const backstore::FileStore::Options& options);
  /// An errno value: of opening the file.
  int open_file(const target_tree::Node& directory, const std::string& file,
                const backstore::FileStore::Options& options);
  void close(const target_tree::Node& directory);
  /// A device of core/ as initiators of a protocol see it; null if it is not enabled. It is another
  /// one after its attributes have changed.
  scsi::LogicalUnit* unit(const target_tree::Node& device, scsi::Protocol protocol, bool may_write);

  int on_write(const target_tree::Node& directory, std::string_view attribute,
               std::string_view value) override;
  int on_remove(const target_tree::Node& directory) override;
  void settle(const target_tree::Node* top, std::string_view changed) override;

  TimeNs deadline() const override { return has_unsubmitted() ? 0 : looks_at_; }
  void on_time(TimeNs now) override;

 private:
  struct UnitKey {
    std::string device;
    scsi::Protocol protocol{};
    bool may_write = false;
    friend auto operator<=>(const UnitKey&, const UnitKey&) = default;
  };
  struct Unit {
    std::unique_ptr<scsi::LogicalUnit> unit;
    scsi::Identity identity;
    scsi::UnitSettings settings;
  };
  static constexpr TimeNs kLookStep = 100 * kMillisecond;

  bool has_unsubmitted() const {
    return buffers_ != nullptr && buffers_->queue().has_unsubmitted();
  }
  /// By the serial number, once the device has one.
  void keep_reservations(Device& device, const std::string& serial);
  int open(const target_tree::Node& device);
  void set_groups(const target_tree::Node& directory, Device& device);
  int keep(const target_tree::Node& directory, Result<std::unique_ptr<backstore::Store>> store);
  /// Frees what no session uses any more.
  void collect();

  Runner& runner_;
  const rdma::Device& device_;
  service::Loop& loop_;
  std::string folder_;
  PortNumbers port_numbers_;
  std::function<void(const std::string&, std::string)> follower_;
  std::unique_ptr<backstore::FileBuffers> buffers_;  // From the first file on.
  std::map<std::string, Device> devices_;            // By the directory's path.
  std::map<UnitKey, Unit> units_;
  std::vector<Device> old_devices_;
  std::vector<Unit> old_units_;  // Sessions' tasks may know them.
  TimeNs looks_at_ = kNever;
};

}  // namespace verbatim::ulp::target
