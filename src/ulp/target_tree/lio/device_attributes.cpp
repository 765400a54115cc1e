// core/P_N/NAME/attrib: what both kinds of devices have, with a value of each.
#include <array>
#include <cerrno>
#include <cstdint>

#include "ulp/target_tree/lio/kinds.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

bool is_ram(const Node& attributes) { return attributes.kind == &kRamDeviceAttributes; }

/// What may not change while a LUN links to the device. A value out of its bounds is told first.
template <Parser kParse>
Answer<std::string> unexported(const Written& written) {
  auto value = kParse(written);
  if (value && !written.directory.parent->links_here.empty()) return std::unexpected(EINVAL);
  return value;
}
int refuse_before_enable(const Node& attributes) {
  return attributes.parent->is_set("enable") ? 0 : EINVAL;
}

/// A flag that the kernel does not let go to `refused`.
Answer<std::string> parse_fixed(const Written& written, std::string_view refused, int code) {
  auto value = parse_flag(written);
  if (value && *value == refused) return std::unexpected(code);
  return value;
}
Answer<std::string> parse_on(const Written& written) { return parse_fixed(written, "0", ENOSYS); }
Answer<std::string> parse_off(const Written& written) { return parse_fixed(written, "1", ENOSYS); }
Answer<std::string> parse_no_format(const Written& written) {
  return parse_fixed(written, "1", is_ram(written.directory) ? ENOSYS : ENODEV);
}
/// Taken without effect.
Answer<std::string> parse_nothing(const Written& written) {
  return std::string(written.attribute.value);
}
Answer<std::string> parse_flag_without_effect(const Written& written) {
  auto value = parse_flag(written);
  return value ? parse_nothing(written) : value;
}

Answer<std::string> parse_unmap(const Written& written) {
  auto value = parse_flag(written);
  if (value == "1" && written.directory.value("max_unmap_block_desc_count") == "0")
    return std::unexpected(ENOSYS);
  return value;
}
Answer<std::string> parse_block_size(const Written& written) {
  const auto number = number_of(written.text);
  if (!number) return std::unexpected(number.error());
  return parse_word(written);
}
Answer<std::string> parse_optimal_sectors(const Written& written) {
  auto value = parse_number(written);
  if (value && *number_of(*value) > *number_of(written.directory.value("hw_max_sectors")))
    return std::unexpected(EINVAL);
  return value;
}
Answer<std::string> parse_protection(const Written& written) {
  auto value = parse_number(written);
  if (value == "2") return std::unexpected(ENOSYS);
  return value;
}

/// product_id is the device's name, or the kind's own.
void name_product(Node& attributes, const std::string& /*before*/) {
  Node& wwn = *attributes.parent->child("wwn");
  const auto at = static_cast<std::size_t>(wwn.find("product_id"));
  wwn.set(at, attributes.is_set("emulate_model_alias")
                  ? attributes.parent->name.substr(0, 16)
                  : std::string(wwn.kind->attributes[at].value));
}

struct Row {
  Attribute attribute;  // Its value: a file's.
  std::string_view ram_value;
  bool is_from_enable = false;  // Enabling sets it.
};

constexpr Attribute flag(std::string_view name, std::string_view value, Parser parse = parse_flag) {
  return {.name = name, .value = value, .parse = parse};
}
constexpr Attribute number(std::string_view name, std::string_view value,
                           std::uint32_t high = UINT32_MAX, Parser parse = parse_number) {
  return {.name = name, .value = value, .parse = parse, .high = high};
}
constexpr Attribute fixed(std::string_view name, std::string_view value) {
  return {.name = name, .value = value, .mode = kReadOnly};
}

constexpr Row kRows[] = {
    {flag("alua_support", "1", parse_on), "1"},
    {{.name = "block_size",
      .value = "512",
      .parse = unexported<parse_block_size>,
      .words = "512|1024|2048|4096"},
     "512",
     true},
    {flag("emulate_3pc", "1"), "1"},
    {flag("emulate_caw", "1"), "1"},
    {flag("emulate_dpo", "1", parse_nothing), "1"},
    {flag("emulate_fua_read", "1", parse_nothing), "1"},
    {flag("emulate_fua_write", "1"), "1"},
    {{.name = "emulate_model_alias",
      .value = "0",
      .parse = unexported<parse_flag>,
      .after = name_product},
     "0"},
    {flag("emulate_pr", "1"), "1"},
    {flag("emulate_rest_reord", "0", parse_off), "0"},
    {flag("emulate_tas", "1", unexported<parse_flag>), "1"},
    // Kernel 6.1 itself fails if a file's is written before it is enabled.
    {{.name = "emulate_tpu", .value = "0", .parse = parse_unmap, .guard = refuse_before_enable},
     "0"},
    {{.name = "emulate_tpws", .value = "0", .parse = parse_unmap, .guard = refuse_before_enable},
     "0"},
    {number("emulate_ua_intlck_ctrl", "0", 2, unexported<parse_number>), "0"},
    {flag("emulate_write_cache", "0"), "0"},
    {flag("enforce_pr_isids", "1"), "1"},
    {flag("force_pr_aptpl", "0", unexported<parse_flag>), "0"},
    {fixed("hw_block_size", "512"), "512", true},
    {fixed("hw_max_sectors", "16384"), "4294967288", true},
    {fixed("hw_pi_prot_type", "0"), "0", true},
    {fixed("hw_queue_depth", "128"), "128", true},
    {flag("is_nonrot", "0"), "1"},
    {number("max_unmap_block_desc_count", "1"), "0", true},
    {number("max_unmap_lba_count", "8192"), "0", true},
    {number("max_write_same_len", "4096"), "0", true},
    {number("optimal_sectors", "16384", UINT32_MAX, unexported<parse_optimal_sectors>),
     "4294967288", true},
    {flag("pgr_support", "1", parse_on), "1"},
    {flag("pi_prot_format", "0", parse_no_format), "0"},
    {number("pi_prot_type", "0", 3, unexported<parse_protection>), "0"},
    {flag("pi_prot_verify", "0", parse_flag_without_effect), "0"},
    {{.name = "queue_depth",
      .value = "128",
      .parse = unexported<parse_number>,
      .low = 1,
      .high = 128},
     "128",
     true},
    {number("unmap_granularity", "1"), "0", true},
    {number("unmap_granularity_alignment", "0"), "0", true},
    {flag("unmap_zeroes_data", "0", unexported<parse_flag>), "0"}};
constexpr std::size_t kCount = std::size(kRows);

/// What the hardware says is 0 before a device is enabled.
consteval std::array<Attribute, kCount> column(bool of_ram) {
  std::array<Attribute, kCount> all{};
  for (std::size_t i = 0; i < kCount; ++i) {
    all[i] = kRows[i].attribute;
    if (of_ram) all[i].value = kRows[i].ram_value;
    if (all[i].mode == kReadOnly || all[i].name == "block_size") all[i].value = "0";
  }
  return all;
}
constexpr auto kFileColumn = column(false);
constexpr auto kRamColumn = column(true);

}  // namespace

constexpr Kind kFileDeviceAttributes{.attributes = kFileColumn};
constexpr Kind kRamDeviceAttributes{.attributes = kRamColumn};

void enable_attributes(Node& attributes) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (kRows[i].is_from_enable)
      attributes.set(
          i, std::string(is_ram(attributes) ? kRows[i].ram_value : kRows[i].attribute.value));
}

}  // namespace verbatim::ulp::target_tree
