// core/: adapters (P_N) and the devices in them, kept in files or in memory.
#include <array>
#include <cerrno>
#include <ranges>

#include <fmt/format.h>

#include "ulp/target_tree/hooks.h"
#include "ulp/target_tree/lio/kinds.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

// --- control: NAME=VALUE, with commas between

struct ControlWord {
  std::string_view name;  // The hidden attribute that keeps it.
  enum class Takes { text, number, one, one_or_nothing } takes;
};
constexpr ControlWord kFileWords[] = {{"fd_dev_name", ControlWord::Takes::text},
                                      {"fd_dev_size", ControlWord::Takes::number},
                                      {"fd_buffered_io", ControlWord::Takes::one},
                                      {"fd_async_io", ControlWord::Takes::one}};
constexpr ControlWord kRamWords[] = {{"rd_pages", ControlWord::Takes::number},
                                     {"rd_nullio", ControlWord::Takes::one_or_nothing},
                                     {"rd_dummy", ControlWord::Takes::one_or_nothing}};

bool is_digits(std::string_view text) {
  return !text.empty() && text.size() <= 19 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Calls `found(word, value)` for each known NAME=VALUE until it answers an errno. Unknown ones are
/// passed over.
template <typename F>
int for_each_control(const Kind& kind, std::string_view text, F found) {
  const bool is_file = &kind == &kFileDevice;
  const std::span<const ControlWord> words =
      is_file ? std::span<const ControlWord>(kFileWords) : std::span<const ControlWord>(kRamWords);
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find_first_of(",\n"));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    for (const ControlWord& word : words)
      if (word.name == pair.substr(0, equals))
        if (const int code = found(word, pair.substr(equals + 1)); code != 0) return code;
  }
  return 0;
}

Answer<std::string> parse_control(const Written& written) {
  const std::string_view text = trimmed(written.text);
  const int code = for_each_control(
      *written.directory.kind, text, [](const ControlWord& word, std::string_view value) {
        if (word.takes == ControlWord::Takes::number) return is_digits(value) ? 0 : EINVAL;
        return word.takes == ControlWord::Takes::one && value != "1" ? EINVAL : 0;
      });
  if (code != 0) return std::unexpected(code);
  return std::string(text);
}

void apply_control(Node& device, const std::string& /*before*/) {
  for_each_control(*device.kind, device.value("control"),
                   [&](const ControlWord& word, std::string_view value) {
                     if (word.takes != ControlWord::Takes::one_or_nothing || value == "1")
                       device.set(word.name, std::string(value));
                     return 0;
                   });
  device.set("control", "");
}

// --- A device

Answer<std::string> parse_enable(const Written& written) {
  const Node& device = written.directory;
  if (trimmed(written.text) != "1") return std::unexpected(EINVAL);
  if (device.is_set("enable")) return std::unexpected(EEXIST);
  const bool is_complete = device.kind == &kFileDevice ? !device.value("fd_dev_name").empty() &&
                                                             !device.value("fd_dev_size").empty()
                                                       : !device.value("rd_pages").empty();
  if (!is_complete) return std::unexpected(EINVAL);
  return "1";
}

void note_enabled(Node& device, const std::string& /*before*/) {
  Node& attributes = *device.child("attrib");
  enable_attributes(attributes);
  if (device.kind == &kFileDevice && device.is_set("fd_buffered_io"))
    attributes.set("emulate_write_cache", "1");
}

Answer<std::string> refuse_unsupported(const Written& /*written*/) {
  return std::unexpected(ENODEV);
}

Answer<std::string> show_unit_group(const Attribute& /*attribute*/, const Node& device) {
  return device.is_set("enable") ? "LU Group Alias: default_lu_gp\nLU Group ID: 0\n" : "";
}

/// "0" for what no program wrote.
std::string_view or_zero(const std::string& value) {
  return value.empty() ? std::string_view("0") : value;
}

Answer<std::string> show_info(const Attribute& /*attribute*/, const Node& device) {
  const Node& attributes = *device.child("attrib");
  const bool is_enabled = device.is_set("enable");
  const std::string head = fmt::format(
      "Status: {}  Max Queue Depth: 0  SectorSize: {}  HwMaxSectors: {}\n",
      device.links_here.empty() ? "DEACTIVATED" : "ACTIVATED",
      is_enabled ? attributes.value("block_size") : "0", attributes.value("hw_max_sectors"));
  if (device.kind == &kFileDevice)
    return head +
           fmt::format("        TCM FILEIO ID: 0        File: {}  Size: {}  Mode: {} Async: {}\n",
                       device.value("fd_dev_name"), or_zero(device.value("fd_dev_size")),
                       device.is_set("fd_buffered_io") ? "Buffered-WCE" : "O_DSYNC",
                       or_zero(device.value("fd_async_io")));
  // 64 KiB of descriptors, 32 bytes each, are a table of the kernel's.
  const bool is_null = device.is_set("rd_nullio");
  const std::uint32_t pages = number_of(or_zero(device.value("rd_pages"))).value_or(0);
  return head + fmt::format(
                    "        TCM RamDisk ID: 0  RamDisk Makeup: rd_mcp\n"
                    "        PAGES/PAGE_SIZE: {}*4096  SG_table_count: {}  nullio: {} dummy: {}\n",
                    pages, is_null || !is_enabled ? 0 : pages / 2048 + 1,
                    or_zero(device.value("rd_nullio")), or_zero(device.value("rd_dummy")));
}

template <std::size_t N>
consteval auto device_attributes(const ControlWord (&words)[N]) {
  std::array<Attribute, 7 + N> all{
      Attribute{.name = "alias", .parse = parse_text, .high = 512, .show = show_or_nothing},
      Attribute{.name = "alua_lu_gp", .parse = refuse_unsupported, .show = show_unit_group},
      Attribute{
          .name = "control", .parse = parse_control, .mode = kWriteOnly, .after = apply_control},
      Attribute{.name = "enable", .value = "0", .parse = parse_enable, .after = note_enabled},
      Attribute{.name = "info", .mode = kReadOnly, .show = show_info},
      Attribute{.name = "lba_map", .show = show_or_nothing},
      Attribute{.name = "udev_path", .parse = parse_text, .high = 512, .show = show_or_nothing}};
  for (std::size_t i = 0; i < N; ++i) all[7 + i] = {.name = words[i].name, .mode = kHidden};
  return all;
}
constexpr auto kFileAttributes = device_attributes(kFileWords);
constexpr auto kRamAttributes = device_attributes(kRamWords);

// --- pr/ and wwn/

constexpr std::string_view kNoHolder = "No SPC-3 Reservation holder";
constexpr Attribute kReservationAttributes[] = {
    {.name = "res_aptpl_active", .value = "APTPL Bit Status: Disabled", .mode = kReadOnly},
    {.name = "res_aptpl_metadata", .value = "Ready to process PR APTPL metadata.."},
    {.name = "res_holder", .value = kNoHolder, .mode = kReadOnly, .is_live = true},
    {.name = "res_pr_all_tgt_pts", .value = kNoHolder, .mode = kReadOnly, .is_live = true},
    {.name = "res_pr_generation", .value = "0x00000000", .mode = kReadOnly, .is_live = true},
    {.name = "res_pr_holder_tg_port", .value = kNoHolder, .mode = kReadOnly, .is_live = true},
    {.name = "res_pr_registered_i_pts",
     .value = "SPC-3 PR Registrations:\nNone",
     .mode = kReadOnly,
     .is_live = true},
    {.name = "res_pr_type", .value = kNoHolder, .mode = kReadOnly, .is_live = true},
    {.name = "res_type", .value = "SPC3_PERSISTENT_RESERVATIONS", .mode = kReadOnly}};
constexpr Kind kReservations{.attributes = kReservationAttributes};

Answer<std::string> parse_company(const Written& written) {
  const auto number = number_of(written.text);
  if (!number) return std::unexpected(number.error());
  if (*number > 0xffffff) return std::unexpected(EOVERFLOW);
  return fmt::format("0x{:06x}", *number);
}
int refuse_exported(const Node& wwn) { return wwn.parent->links_here.empty() ? 0 : EINVAL; }
Answer<std::string> show_serial(const Attribute& attribute, const Node& wwn) {
  return "T10 VPD Unit Serial Number: " + wwn.value(attribute.name) + "\n";
}

consteval auto name_attributes(std::string_view product) {
  return std::array{
      Attribute{.name = "company_id", .value = "0x001405", .parse = parse_company},
      Attribute{.name = "product_id", .value = product, .parse = parse_short_text, .high = 16},
      Attribute{.name = "revision", .value = "4.0", .parse = parse_short_text, .high = 4},
      Attribute{.name = "vendor_id", .value = "LIO-ORG", .parse = parse_short_text, .high = 8},
      Attribute{.name = "vpd_assoc_logical_unit", .mode = kReadOnly, .show = show_or_nothing},
      Attribute{.name = "vpd_assoc_scsi_target_device", .mode = kReadOnly, .show = show_or_nothing},
      Attribute{.name = "vpd_assoc_target_port", .mode = kReadOnly, .show = show_or_nothing},
      Attribute{.name = "vpd_protocol_identifier", .mode = kReadOnly, .show = show_or_nothing},
      Attribute{.name = "vpd_unit_serial",
                .parse = parse_short_text,
                .high = 254,
                .guard = refuse_exported,
                .show = show_serial}};
}
constexpr auto kFileNameAttributes = name_attributes("FILEIO");
constexpr auto kRamNameAttributes = name_attributes("RAMDISK-MCP");
constexpr Kind kFileNames{.attributes = kFileNameAttributes};
constexpr Kind kRamNames{.attributes = kRamNameAttributes};

consteval std::array<Group, 6> device_groups(const Kind& attributes, const Kind& names) {
  return {{{"action", &kEmpty},
           {"attrib", &attributes},
           {"pr", &kReservations},
           {"wwn", &names},
           {"alua", &kAluaGroups},
           {"statistics", &kDeviceStatistics}}};
}
constexpr auto kFileGroups = device_groups(kFileDeviceAttributes, kFileNames);
constexpr auto kRamGroups = device_groups(kRamDeviceAttributes, kRamNames);

}  // namespace

constexpr Kind kFileDevice{.attributes = kFileAttributes, .groups = kFileGroups};
constexpr Kind kRamDevice{.attributes = kRamAttributes, .groups = kRamGroups};

namespace {

// --- Adapters

constexpr Attribute kAdapterAttributes[] = {{.name = "hba_info", .mode = kReadOnly},
                                            {.name = "hba_mode", .value = "0"}};

/// Adapters are numbered from 1, and no number is given twice.
void number_adapter(Node& adapter, Hooks& /*hooks*/) {
  Node& core = *adapter.parent;
  const std::uint32_t index = number_of(core.value("hba_count")).value_or(0) + 1;
  core.set("hba_count", std::to_string(index));
  adapter.set("hba_info", fmt::format("HBA Index: {} plugin: {} version: v5.0", index,
                                      adapter.name.substr(0, adapter.name.rfind('_'))));
}

constexpr Kind kFileAdapter{
    .attributes = kAdapterAttributes,
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kFileDevice; },
    .made = number_adapter};
constexpr Kind kRamAdapter{
    .attributes = kAdapterAttributes,
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kRamDevice; },
    .made = number_adapter};

/// ADAPTER/DEVICE of each device that is enabled: all are in the default group.
Answer<std::string> show_unit_members(const Attribute& /*attribute*/, const Node& group) {
  std::string text;
  for (const auto& adapter : group.parent->parent->parent->children | std::views::reverse)
    for (const auto& device : adapter->children)
      if (is_device(*device) && device->is_set("enable"))
        text += adapter->name + "/" + device->name + "\n";
  return text;
}
constexpr Attribute kUnitGroupAttributes[] = {
    {.name = "lu_gp_id", .value = "0"},
    {.name = "members", .mode = kReadOnly, .show = show_unit_members}};
constexpr Kind kUnitGroup{.attributes = kUnitGroupAttributes};
constexpr Group kUnitGroupGroups[] = {{"default_lu_gp", &kUnitGroup}};
constexpr Kind kUnitGroups{.groups = kUnitGroupGroups};
constexpr Group kCoreAluaGroups[] = {{"lu_gps", &kUnitGroups}};
constexpr Kind kCoreAlua{.groups = kCoreAluaGroups};

constexpr Attribute kCoreAttributes[] = {{.name = "hba_count", .value = "0", .mode = kHidden}};
constexpr Group kCoreGroups[] = {{"alua", &kCoreAlua}};

}  // namespace

constexpr Kind kCore{.attributes = kCoreAttributes,
                     .groups = kCoreGroups,
                     .child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
                       if (number_after("fileio_", name)) return &kFileAdapter;
                       if (number_after("rd_mcp_", name)) return &kRamAdapter;
                       return std::unexpected(EINVAL);
                     }};

}  // namespace verbatim::ulp::target_tree
