#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ulp/scsi/logical_unit.h"
#include "ulp/scsi/text_for_test.h"

/// A unit with two initiators, for tests: each command's plan as text.
namespace verbatim::ulp::scsi {

inline constexpr std::uint32_t kMuch = 1 << 20;

/// As the unit in the captures: 32,768 blocks of 512 bytes, no cache, two ports, no serial number.
inline UnitSettings captured() {
  UnitSettings settings;
  settings.blocks = 32768;
  settings.ports = {1, 2};
  return settings;
}
inline UnitSettings with_all() {
  UnitSettings settings = captured();
  settings.blocks = 1000;
  settings.has_write_cache = settings.can_unmap = settings.can_unmap_by_write_same = true;
  settings.unmap_ranges_max = 3;
  settings.unmap_blocks_max = 100;
  settings.write_same_blocks_max = 64;
  settings.transfer_blocks_max = 128;
  return settings;
}

class UnitBench {
 public:
  explicit UnitBench(UnitSettings settings, Identity identity = {},
                     std::shared_ptr<PortGroups> groups = nullptr)
      : unit(storage::UnitId{7}, std::move(identity), std::move(settings),
             std::make_shared<Reservations>(), std::move(groups)) {
    unit.on_login(NexusId{0}, {.name = "iqn.2026-01.test:0"});
    unit.on_login(NexusId{1}, {.name = "iqn.2026-01.test:1"});
  }

  /// With room for all data-in, or for just `in` bytes.
  std::string in(std::string_view cdb, std::uint32_t room = kMuch, NexusId nexus = NexusId{0}) {
    return run(cdb, 0, room, nexus);
  }
  std::string out(std::string_view cdb, std::uint32_t bytes) {
    return run(cdb, bytes, 0, NexusId{0});
  }
  /// The answer's bytes.
  std::string data(std::string_view cdb, std::uint32_t room = kMuch) {
    in(cdb, room);
    return data_;
  }
  std::string parameters(std::string_view cdb, std::string_view hex, NexusId nexus = NexusId{0}) {
    const auto bytes = bytes_of_hex(cdb);
    parameters_ = bytes_of_hex(hex);
    return text(
        unit.with_parameters({.nexus = nexus,
                              .port = &port,
                              .cdb = bytes,
                              .data_out_bytes = static_cast<std::uint32_t>(parameters_.size())},
                             parameters_));
  }

  LogicalUnit unit;
  Port port{.device_name = "iqn.2026-01.test:t"};

 private:
  std::string run(std::string_view hex, std::uint32_t out, std::uint32_t in, NexusId nexus) {
    const auto cdb = bytes_of_hex(hex);
    const Command command{.nexus = nexus,
                          .port = &port,
                          .cdb = cdb,
                          .luns = luns_,
                          .data_out_bytes = out,
                          .data_in_bytes = in};
    const Plan plan = unit.plan(command, memory_);
    const auto* const answer = std::get_if<Answer>(&plan.step);
    data_ = answer == nullptr ? "" : hex_of(answer->data);
    std::string line = text(plan);
    // Room that nothing was said about is no underflow here.
    const std::string unused = fmt::format(", in -{}", kMuch);
    if (line.ends_with(unused)) line.resize(line.size() - unused.size());
    return line;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(LogicalUnit::kMemoryBytes);
  std::vector<std::byte> parameters_;
  std::vector<Lun> luns_ = {0, Lun{1} << 48};
  std::string data_;
};

}  // namespace verbatim::ulp::scsi
