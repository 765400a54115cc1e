#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What an administrator sets of a unit, by LIO's names in the comments; and of a port.
namespace verbatim::ulp::scsi {

/// A unit's number as it stands in messages, 8 bytes (SAM-5, 4.7).
using Lun = std::uint64_t;

struct Identity {
  std::string vendor = "LIO-ORG";  // At most 8 characters, 16 and 4.
  std::string product = "FILEIO";
  std::string revision = "4.0";
  std::string serial;                   // vpd_unit_serial; without one there are no VPD pages.
  std::uint32_t company_id = 0x001405;  // 24 bits: the IEEE's number in the unit's NAA name.
  friend bool operator==(const Identity&, const Identity&) = default;
};

struct UnitSettings {
  std::uint64_t blocks = 0;
  std::uint32_t block_bytes = 512;  // 512 to 4096.
  bool is_read_only = false;
  bool has_write_cache = false;          // emulate_write_cache: WCE, and with it DPO and FUA.
  bool is_rotational = true;             // Not is_nonrot.
  bool can_unmap = false;                // emulate_tpu: UNMAP.
  bool can_unmap_by_write_same = false;  // emulate_tpws.
  bool unmap_zeroes = false;             // unmap_zeroes_data: LBPRZ.
  bool can_compare_and_write = true;     // emulate_caw.
  bool can_reserve = true;               // emulate_pr: RESERVE and PERSISTENT RESERVE.
  bool can_copy = true;                  // emulate_3pc: EXTENDED COPY.
  bool tells_aborted = true;  // emulate_tas: what another initiator aborts ends with TASK ABORTED.
  std::uint32_t transfer_blocks_max = 16384;   // hw_max_sectors.
  std::uint32_t transfer_blocks_best = 16384;  // optimal_sectors.
  std::uint32_t unmap_blocks_max = 8192;       // max_unmap_lba_count.
  std::uint32_t unmap_ranges_max = 1;          // max_unmap_block_desc_count; at most 255.
  std::uint32_t unmap_granularity = 1;
  std::uint32_t unmap_alignment = 0;
  std::uint32_t write_same_blocks_max = 4096;  // max_write_same_len.
  bool can_set_port_groups = false;            // alua_access_type: SET TARGET PORT GROUPS.
  /// Relative identifiers of all ports that show the unit, if it has no `PortGroups` of its own.
  std::vector<std::uint16_t> ports;
  friend bool operator==(const UnitSettings&, const UnitSettings&) = default;
};

/// SPC-4, 7.6.1.
enum class Protocol : std::uint8_t { srp = 4, iscsi = 5 };

/// Through which an initiator sees a unit.
struct Port {
  Protocol protocol = Protocol::iscsi;
  std::uint16_t id = 1;     // Relative target port identifier.
  std::uint16_t tag = 1;    // Target portal group.
  std::string device_name;  // IQN; SRP: the name of the port's folder.
};

/// An initiator's port at a port of ours: who holds reservations, also while it is not logged in.
struct InitiatorPort {
  Protocol protocol = Protocol::iscsi;
  std::string name;             // iSCSI's; SRP: 32 hexadecimal digits.
  std::uint64_t isid = 0;       // iSCSI: 48 bits.
  std::string target;           // Our port's name.
  std::uint16_t target_id = 1;  // Its relative identifier.
  /// Our port may have another number after a restart.
  friend bool operator==(const InitiatorPort& a, const InitiatorPort& b) {
    return a.protocol == b.protocol && a.name == b.name && a.isid == b.isid && a.target == b.target;
  }
};

}  // namespace verbatim::ulp::scsi
