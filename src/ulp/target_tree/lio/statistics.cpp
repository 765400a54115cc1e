// Counters: constants as long as a daemon does not answer Hooks::on_read.
#include <array>
#include <cerrno>

#include "ulp/target_tree/lio/kinds.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

struct Counter {
  std::string_view name;
  std::string_view value;
};

template <std::size_t N>
consteval auto live(const Counter (&counters)[N], Shower show) {
  std::array<Attribute, N> all{};
  for (std::size_t i = 0; i < N; ++i)
    all[i] = {.name = counters[i].name,
              .value = counters[i].value,
              .mode = kReadOnly,
              .show = show,
              .is_live = true};
  return all;
}

/// Of a group below statistics/: `status` says whether a LUN links to the device.
Answer<std::string> show_device(const Attribute& attribute, const Node& group) {
  const bool is_used = !group.parent->parent->links_here.empty();
  if (attribute.name != "status") return show_line(attribute, group);
  if (group.name == "scsi_tgt_dev") return is_used ? "activated" : "deactivated";
  return is_used ? "available\n" : "notavailable\n";
}

Answer<std::string> show_if_linked(const Attribute& attribute, const Node& group) {
  if (group.parent->parent->linked() == nullptr) return std::unexpected(ENODEV);
  return show_line(attribute, group);
}

// --- Devices

constexpr Counter kScsiDevCounters[] = {
    {"indx", "1"}, {"inst", "2"}, {"ports", "0"}, {"role", "Target"}};
constexpr auto kScsiDevAttributes = live(kScsiDevCounters, show_device);
constexpr Kind kScsiDev{.attributes = kScsiDevAttributes};
constexpr Counter kScsiLuCounters[] = {{"creation_time", "0"},
                                       {"dev", "1"},
                                       {"dev_type", "0"},
                                       {"full_stat", "0"},
                                       {"hs_num_cmds", "0"},
                                       {"indx", "1"},
                                       {"inst", "2"},
                                       {"lu_name", "None"},
                                       {"lun", "0"},
                                       {"num_cmds", "0"},
                                       {"prod", "FILEIO          "},
                                       {"read_mbytes", "0"},
                                       {"resets", "0"},
                                       {"rev", "4.0 "},
                                       {"state_bit", "exposed"},
                                       {"status", "notavailable"},
                                       {"vend", "LIO-ORG "},
                                       {"write_mbytes", "0"}};
constexpr auto kScsiLuAttributes = live(kScsiLuCounters, show_device);
constexpr Kind kScsiLu{.attributes = kScsiLuAttributes};
constexpr Counter kScsiTgtDevCounters[] = {
    {"aborts_complete", "0"}, {"aborts_no_task", "0"}, {"indx", "1"},   {"inst", "2"},
    {"non_access_lus", "1"},  {"num_lus", "1"},        {"resets", "0"}, {"status", "deactivated"}};
constexpr auto kScsiTgtDevAttributes = live(kScsiTgtDevCounters, show_device);
constexpr Kind kScsiTgtDev{.attributes = kScsiTgtDevAttributes};
constexpr Group kDeviceStatisticsGroups[] = {
    {"scsi_dev", &kScsiDev}, {"scsi_lu", &kScsiLu}, {"scsi_tgt_dev", &kScsiTgtDev}};

// --- LUNs

constexpr Counter kScsiPortCounters[] = {
    {"busy_count", "0"}, {"dev", "2"}, {"indx", "1"}, {"inst", "3"}, {"role", "Device2"}};
constexpr auto kScsiPortAttributes = live(kScsiPortCounters, show_if_linked);
constexpr Kind kScsiPort{.attributes = kScsiPortAttributes};
constexpr Counter kScsiTgtPortCounters[] = {
    {"dev", "2"}, {"hs_in_cmds", "0"}, {"in_cmds", "0"},     {"indx", "1"},        {"inst", "3"},
    {"name", ""}, {"port_index", ""},  {"read_mbytes", "0"}, {"write_mbytes", "0"}};
constexpr auto kScsiTgtPortAttributes = live(kScsiTgtPortCounters, show_if_linked);
constexpr Kind kScsiTgtPort{.attributes = kScsiTgtPortAttributes};
constexpr Counter kScsiTransportCounters[] = {{"dev_name", ""},
                                              {"device", "scsiTransportiSCSI"},
                                              {"indx", "0"},
                                              {"inst", "3"},
                                              {"proto_id", "5"}};
constexpr auto kScsiTransportAttributes = live(kScsiTransportCounters, show_if_linked);
constexpr Kind kScsiTransport{.attributes = kScsiTransportAttributes};
constexpr Group kUnitStatisticsGroups[] = {{"scsi_port", &kScsiPort},
                                           {"scsi_tgt_port", &kScsiTgtPort},
                                           {"scsi_transport", &kScsiTransport}};

// --- LUNs of an ACL

constexpr Counter kScsiAttIntrPortCounters[] = {
    {"dev", "1"},      {"indx", ""}, {"inst", "0"}, {"port", "1"}, {"port_auth_indx", "1"},
    {"port_ident", ""}};
constexpr auto kScsiAttIntrPortAttributes = live(kScsiAttIntrPortCounters, show_if_linked);
constexpr Kind kScsiAttIntrPort{.attributes = kScsiAttIntrPortAttributes};
constexpr Counter kScsiAuthIntrCounters[] = {
    {"att_count", "1"},      {"creation_time", "0"}, {"dev", "1"},  {"dev_or_port", "1"},
    {"hs_num_cmds", "0"},    {"indx", "1"},          {"inst", "0"}, {"intr_name", ""},
    {"map_indx", "0"},       {"num_cmds", "0"},      {"port", "1"}, {"read_mbytes", "0"},
    {"row_status", "Ready"}, {"write_mbytes", "0"}};
constexpr auto kScsiAuthIntrAttributes = live(kScsiAuthIntrCounters, show_if_linked);
constexpr Kind kScsiAuthIntr{.attributes = kScsiAuthIntrAttributes};
constexpr Group kMappedStatisticsGroups[] = {{"scsi_att_intr_port", &kScsiAttIntrPort},
                                             {"scsi_auth_intr", &kScsiAuthIntr}};

// --- iSCSI targets

constexpr Counter kIscsiInstanceCounters[] = {{"description", "Storage Engine Target"},
                                              {"disc_time", "0"},
                                              {"fail_rem_name", "None"},
                                              {"fail_sess", "0"},
                                              {"fail_type", "0"},
                                              {"inst", "0"},
                                              {"max_ver", "0"},
                                              {"min_ver", "0"},
                                              {"nodes", "1"},
                                              {"portals", "0"},
                                              {"sessions", "0"},
                                              {"vendor", "Datera, Inc. iSCSI-Target"},
                                              {"version", "v4.1.0"}};
constexpr auto kIscsiInstanceAttributes = live(kIscsiInstanceCounters, show_line);
constexpr Kind kIscsiInstance{.attributes = kIscsiInstanceAttributes};
constexpr Counter kIscsiLoginStatsCounters[] = {
    {"accepts", "0"}, {"authenticate_fails", "0"}, {"authorize_fails", "0"}, {"indx", "1"},
    {"inst", "0"},    {"negotiate_fails", "0"},    {"other_fails", "0"},     {"redirects", "0"}};
constexpr auto kIscsiLoginStatsAttributes = live(kIscsiLoginStatsCounters, show_line);
constexpr Kind kIscsiLoginStats{.attributes = kIscsiLoginStatsAttributes};
constexpr Counter kIscsiLogoutStatsCounters[] = {
    {"abnormal_logouts", "0"}, {"indx", "1"}, {"inst", "0"}, {"normal_logouts", "0"}};
constexpr auto kIscsiLogoutStatsAttributes = live(kIscsiLogoutStatsCounters, show_line);
constexpr Kind kIscsiLogoutStats{.attributes = kIscsiLogoutStatsAttributes};
constexpr Counter kIscsiSessErrCounters[] = {
    {"cxn_errors", "0"}, {"digest_errors", "0"}, {"format_errors", "0"}, {"inst", "0"}};
constexpr auto kIscsiSessErrAttributes = live(kIscsiSessErrCounters, show_line);
constexpr Kind kIscsiSessErr{.attributes = kIscsiSessErrAttributes};
constexpr Counter kIscsiTgtAttrCounters[] = {{"fail_intr_addr", "(einval)"},
                                             {"fail_intr_addr_type", "ipv4"},
                                             {"fail_intr_name", "None"},
                                             {"indx", "1"},
                                             {"inst", "0"},
                                             {"last_fail_time", "0"},
                                             {"last_fail_type", "0"},
                                             {"login_fails", "0"}};
constexpr auto kIscsiTgtAttrAttributes = live(kIscsiTgtAttrCounters, show_line);
constexpr Kind kIscsiTgtAttr{.attributes = kIscsiTgtAttrAttributes};
constexpr Group kIscsiStatisticsGroups[] = {{"iscsi_instance", &kIscsiInstance},
                                            {"iscsi_login_stats", &kIscsiLoginStats},
                                            {"iscsi_logout_stats", &kIscsiLogoutStats},
                                            {"iscsi_sess_err", &kIscsiSessErr},
                                            {"iscsi_tgt_attr", &kIscsiTgtAttr}};

// --- iSCSI ACLs

constexpr Counter kIscsiSessStatsCounters[] = {{"cmd_pdus", ""},
                                               {"conn_digest_errors", ""},
                                               {"conn_timeout_errors", ""},
                                               {"indx", ""},
                                               {"inst", "0"},
                                               {"node", ""},
                                               {"rsp_pdus", ""},
                                               {"rxdata_octs", ""},
                                               {"txdata_octs", ""}};
constexpr auto kIscsiSessStatsAttributes = live(kIscsiSessStatsCounters, show_or_nothing);
constexpr Kind kIscsiSessStats{.attributes = kIscsiSessStatsAttributes};
constexpr Group kIscsiAclStatisticsGroups[] = {{"iscsi_sess_stats", &kIscsiSessStats}};

}  // namespace

constexpr Kind kDeviceStatistics{.groups = kDeviceStatisticsGroups};
constexpr Kind kUnitStatistics{.groups = kUnitStatisticsGroups};
constexpr Kind kMappedStatistics{.groups = kMappedStatisticsGroups};
constexpr Kind kIscsiStatistics{.groups = kIscsiStatisticsGroups};
constexpr Kind kIscsiAclStatistics{.groups = kIscsiAclStatisticsGroups};

}  // namespace verbatim::ulp::target_tree
