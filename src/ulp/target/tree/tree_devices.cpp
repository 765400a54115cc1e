#include "ulp/target/tree/tree_devices.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>

#include "base/log.h"
#include "ulp/backstore/ram_store.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target {
namespace {

using target_tree::Node;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint32_t kTransferBlocksMax = 16384;  // Of 512 bytes: as much as a store lends.

bool is_device(const Node& node) { return node.find("control") >= 0; }

scsi::Identity identity_of(const Node& device) {
  const Node& wwn = *device.child("wwn");
  return {.vendor = text_of(wwn, "vendor_id"),
          .product = text_of(wwn, "product_id"),
          .revision = text_of(wwn, "revision"),
          .serial = text_of(wwn, "vpd_unit_serial"),
          .company_id = target_tree::number_of(text_of(wwn, "company_id")).value_or(0)};
}

scsi::UnitSettings settings_of(const Node& device, const backstore::Geometry& geometry,
                               bool may_write) {
  const Node& attributes = *device.child("attrib");
  const auto number = [&](std::string_view name) {
    return static_cast<std::uint32_t>(number_of(attributes, name));
  };
  scsi::UnitSettings settings;
  settings.block_bytes = std::max(number("block_size"), 512u);
  settings.blocks = geometry.bytes / settings.block_bytes;
  settings.is_read_only = geometry.is_read_only || !may_write;
  settings.has_write_cache = attributes.is_set("emulate_write_cache");
  settings.is_rotational = !attributes.is_set("is_nonrot");
  settings.can_unmap = attributes.is_set("emulate_tpu");
  settings.can_unmap_by_write_same = attributes.is_set("emulate_tpws");
  settings.unmap_zeroes = attributes.is_set("unmap_zeroes_data");
  settings.can_compare_and_write = attributes.is_set("emulate_caw");
  settings.can_reserve = attributes.is_set("emulate_pr");
  settings.can_copy = attributes.is_set("emulate_3pc");
  settings.tells_aborted = attributes.is_set("emulate_tas");
  const std::uint32_t blocks_max = kTransferBlocksMax * 512 / settings.block_bytes;
  settings.transfer_blocks_max = std::min(number("hw_max_sectors"), blocks_max);
  settings.transfer_blocks_best = std::min(number("optimal_sectors"), blocks_max);
  settings.unmap_blocks_max = number("max_unmap_lba_count");
  settings.unmap_ranges_max = std::min(number("max_unmap_block_desc_count"), 255u);
  settings.unmap_granularity = number("unmap_granularity");
  settings.unmap_alignment = number("unmap_granularity_alignment");
  settings.write_same_blocks_max = number("max_write_same_len");
  settings.can_set_port_groups =
      std::ranges::any_of(device.child("alua")->children, [](const auto& group) {
        return text_of(*group, "alua_access_type").find("Explicit") != std::string::npos;
      });
  return settings;
}

}  // namespace

std::string text_of(const Node& directory, std::string_view attribute) {
  const std::string_view text = target_tree::trimmed(directory.value(attribute));
  return text == "NULL" ? std::string() : std::string(text);
}

std::uint64_t number_of(const Node& directory, std::string_view attribute) {
  const std::string text = text_of(directory, attribute);
  return text.find_first_not_of("0123456789") == std::string::npos && !text.empty() &&
                 text.size() < 20
             ? std::stoull(text)
             : 0;
}

TreeDevices::TreeDevices(Runner& runner, const rdma::Device& device, service::Loop& loop)
    : runner_(runner), device_(device), loop_(loop) {
  loop_.add(*this);
}

TreeDevices::~TreeDevices() {
  loop_.remove(*this);
  if (buffers_ != nullptr) loop_.unwatch(buffers_->queue().descriptor());
}

const TreeDevices::Device* TreeDevices::find(const Node& directory) const {
  const auto found = devices_.find(directory.path());
  return found == devices_.end() ? nullptr : &found->second;
}

int TreeDevices::keep(const Node& directory, Result<std::unique_ptr<backstore::Store>> store) {
  if (!store) {
    log(LogLevel::info, "{}: {}", directory.path(), store.error().text);
    return store.error().code;
  }
  const storage::UnitId unit = runner_.add(**store);
  Device& device = devices_[directory.path()];
  device.store = std::move(*store);
  device.unit = unit;
  return 0;
}

Result<std::unique_ptr<backstore::Store>> TreeDevices::open_store(
    const std::string& file, const backstore::FileStore::Options& options) {
  if (buffers_ == nullptr) {
    auto buffers = backstore::FileBuffers::create(device_);
    if (!buffers) return std::unexpected(buffers.error());
    const auto reap = [this](std::uint32_t, TimeNs now) {
      backstore::FileStore::reap_all(*buffers_);
      runner_.on_answers(now);
    };
    if (auto watched = loop_.watch((*buffers)->queue().descriptor(), EPOLLIN, reap); !watched)
      return std::unexpected(watched.error());
    buffers_ = std::move(*buffers);
  }
  return backstore::FileStore::open(*buffers_, file, options);
}

int TreeDevices::open_file(const Node& directory, const std::string& file,
                           const backstore::FileStore::Options& options) {
  return keep(directory, open_store(file, options));
}

int TreeDevices::open(const Node& device) {
  if (device.find("rd_pages") < 0)
    return open_file(device, device.value("fd_dev_name"),
                     {.bytes = number_of(device, "fd_dev_size"),
                      .is_synchronous = !device.is_set("fd_buffered_io")});
  const std::uint64_t bytes = number_of(device, "rd_pages") * kPageBytes;
  return keep(device, backstore::RamStore::create(device_, bytes, 512));
}

int TreeDevices::on_write(const Node& directory, std::string_view attribute,
                          std::string_view value) {
  return is_device(directory) && attribute == "enable" && value == "1" ? open(directory) : 0;
}

int TreeDevices::on_remove(const Node& directory) {
  if (is_device(directory)) close(directory);
  return 0;
}

void TreeDevices::close(const Node& directory) {
  const std::string path = directory.path();
  const auto found = devices_.find(path);
  if (found == devices_.end()) return;
  for (auto at = units_.begin(); at != units_.end();) {
    if (at->first.device == path) old_units_.push_back(std::move(at->second));
    at = at->first.device == path ? units_.erase(at) : std::next(at);
  }
  runner_.retire(found->second.unit);
  // Its folder may be another device's soon.
  if (found->second.groups != nullptr) found->second.groups->follow({});
  old_devices_.push_back(std::move(found->second));
  devices_.erase(found);
  looks_at_ = 0;
}

scsi::LogicalUnit* TreeDevices::unit(const Node& device, scsi::Protocol protocol, bool may_write) {
  const auto at = devices_.find(device.path());
  if (at == devices_.end()) return nullptr;
  Device* const found = &at->second;
  auto identity = identity_of(device);
  keep_reservations(*found, identity.serial);
  set_groups(device, *found);
  auto settings = settings_of(device, found->store->geometry(), may_write);
  Unit& unit = units_[{device.path(), protocol, may_write}];
  if (unit.unit != nullptr && (unit.identity != identity || unit.settings != settings))
    old_units_.push_back(std::exchange(unit, {}));
  if (unit.unit == nullptr)
    unit = {std::make_unique<scsi::LogicalUnit>(found->unit, identity, settings,
                                                found->reservations, found->groups),
            identity, settings};
  return unit.unit.get();
}

/// As the folders say; what initiators change is told to these.
void TreeDevices::set_groups(const Node& directory, Device& device) {
  auto groups = port_groups_of(directory, port_numbers_);
  if (device.groups == nullptr) {
    device.groups = std::make_shared<scsi::PortGroups>(std::span<const std::uint16_t>{});
    device.groups->follow([this, path = directory.path()](const scsi::PortGroup& group) {
      for (auto& [name, value] : attributes_of(group))
        follower_(path + "/alua/" + group.name + "/" + name, value);
    });
  }
  device.groups->set(std::move(groups));
}

/// `changed`: ADAPTER/DEVICE and what is below it. Users of a device call `unit`; here are changes
/// that no user is left to see.
void TreeDevices::settle(const Node* top, std::string_view changed) {
  collect();
  const std::size_t slash = changed.find('/');
  if (top == nullptr || slash == std::string_view::npos) return;
  const Node* const adapter = top->child(changed.substr(0, slash));
  const std::string_view below = changed.substr(slash + 1);
  const Node* const device =
      adapter == nullptr ? nullptr : adapter->child(below.substr(0, below.find('/')));
  const auto found = device == nullptr ? devices_.end() : devices_.find(device->path());
  if (found != devices_.end()) set_groups(*device, found->second);
}

void TreeDevices::keep_reservations(Device& device, const std::string& serial) {
  constexpr const char* kOfFiles = "0123456789abcdefABCDEF-";
  if (device.reservations->has_keeper() || folder_.empty() || serial.empty() ||
      serial.find_first_not_of(kOfFiles) != std::string::npos)
    return;
  KeptReservations::attach(folder_ + "/reservations/" + serial + ".json", *device.reservations);
}

void TreeDevices::collect() {
  std::erase_if(old_devices_, [this](const Device& one) { return !runner_.is_used(one.unit); });
  if (runner_.session_count() == 0) old_units_.clear();
}

void TreeDevices::on_time(TimeNs now) {
  if (has_unsubmitted()) buffers_->queue().submit();
  if (now < looks_at_) return;
  collect();
  runner_.on_answers(now);
  looks_at_ = old_devices_.empty() ? kNever : now + kLookStep;
}

}  // namespace verbatim::ulp::target
