// iscsi/: targets, portal groups, ACLs, portals.
#include <array>
#include <cerrno>
#include <charconv>
#include <ranges>

#include <arpa/inet.h>

#include "ulp/target_tree/lio/kinds.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

constexpr std::uint32_t kTextBytesMax = 255;

constexpr Attribute number(std::string_view name, std::string_view value, std::uint32_t low,
                           std::uint32_t high) {
  return {.name = name, .value = value, .parse = parse_number, .low = low, .high = high};
}

// --- auth/

bool is_known(const Node& auth, std::string_view name) {
  const std::string& value = auth.value(name);
  return !value.empty() && !value.starts_with("NULL");
}
/// A target proves itself if both of its words are there; "NULL" takes one away.
void note_mutual(Node& auth, const std::string& /*before*/) {
  const bool is_mutual = is_known(auth, "userid_mutual") && is_known(auth, "password_mutual");
  auth.set("authenticate_target", is_mutual ? "1" : "0");
}
constexpr Attribute secret(std::string_view name) {
  return {.name = name, .parse = parse_raw, .high = kTextBytesMax};
}
constexpr Attribute mutual_secret(std::string_view name) {
  Attribute attribute = secret(name);
  attribute.after = note_mutual;
  return attribute;
}
constexpr Attribute kAuthAttributes[] = {
    {.name = "authenticate_target", .value = "0", .mode = kReadOnly},
    secret("password"),
    mutual_secret("password_mutual"),
    secret("userid"),
    mutual_secret("userid_mutual")};
constexpr Kind kAuth{.attributes = kAuthAttributes};

// --- ACLs

/// A signed number: what 32 bits don't hold is ERANGE.
Answer<std::string> parse_authentication(const Written& written) {
  const auto number = number_of(written.text);
  if (number ? *number > INT32_MAX : number.error() == ERANGE) return std::unexpected(ERANGE);
  return parse_word(written);
}
constexpr Attribute kAclAttribAttributes[] = {
    {.name = "authentication", .value = "-1", .parse = parse_authentication, .words = "-1|0|1"},
    number("dataout_timeout", "3", 2, 60),
    number("dataout_timeout_retries", "5", 1, 15),
    number("default_erl", "0", 0, 2),
    number("nopin_response_timeout", "30", 3, 60),
    {.name = "nopin_timeout", .value = "15", .parse = parse_number_or_zero, .low = 3, .high = 60},
    number("random_datain_pdu_offsets", "0", 0, 1),
    number("random_datain_seq_offsets", "0", 0, 1),
    number("random_r2t_offsets", "0", 0, 1)};
constexpr Kind kAclAttrib{.attributes = kAclAttribAttributes};

constexpr Attribute negotiated(std::string_view name) {
  return {.name = name, .value = "No Active iSCSI Session", .mode = kReadOnly, .is_live = true};
}
constexpr Attribute kAclParamAttributes[] = {
    negotiated("DataPDUInOrder"),     negotiated("DataSequenceInOrder"),
    negotiated("DefaultTime2Retain"), negotiated("DefaultTime2Wait"),
    negotiated("ErrorRecoveryLevel"), negotiated("FirstBurstLength"),
    negotiated("ImmediateData"),      negotiated("InitialR2T"),
    negotiated("MaxBurstLength"),     negotiated("MaxConnections"),
    negotiated("MaxOutstandingR2T")};
constexpr Kind kAclParam{.attributes = kAclParamAttributes};

Answer<std::string> parse_depth(const Written& written) {
  auto depth = parse_number(written);
  if (depth == "0") return "1";
  return depth;
}
Answer<std::string> parse_tag(const Written& written) {
  auto tag = parse_text(written);
  if (tag == "NULL") return "";
  return tag;
}
Answer<std::string> show_info(const Attribute& /*attribute*/, const Node& acl) {
  return "No active iSCSI Session for Initiator Endpoint: " + acl.name + "\n";
}
constexpr Attribute kAclAttributes[] = {
    {.name = "cmdsn_depth", .value = "64", .parse = parse_depth, .high = 512},
    {.name = "info", .mode = kReadOnly, .show = show_info, .is_live = true},
    {.name = "tag", .parse = parse_tag, .high = kTextBytesMax, .show = show_exactly}};
constexpr Group kAclGroups[] = {{"attrib", &kAclAttrib},
                                {"auth", &kAuth},
                                {"param", &kAclParam},
                                {"fabric_statistics", &kIscsiAclStatistics}};
constexpr Kind kAcl{.attributes = kAclAttributes, .groups = kAclGroups, .child = mapped_unit};
constexpr Kind kAcls{
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kAcl; }};

// --- Portals

constexpr Attribute kPortalAttributes[] = {
    {.name = "cxgbit", .value = "0", .parse = parse_word, .words = "0"},
    {.name = "iser", .value = "0", .parse = parse_strict, .high = 1}};
constexpr Kind kPortal{.attributes = kPortalAttributes};

/// ADDRESS:PORT or [ADDRESS]:PORT.
bool is_portal(std::string_view name) {
  const auto colon = name.rfind(':');
  if (colon == std::string_view::npos) return false;
  const auto port = number_after("", name.substr(colon + 1));
  if (!port || *port > 65535) return false;
  std::string_view host = name.substr(0, colon);
  const bool is_v6 = host.starts_with('[') && host.ends_with(']');
  if (is_v6) host = host.substr(1, host.size() - 2);
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(is_v6 ? AF_INET6 : AF_INET, std::string(host).c_str(), address.data()) == 1;
}
constexpr Kind kPortals{.child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
  if (!is_portal(name)) return std::unexpected(EINVAL);
  return &kPortal;
}};

// --- Portal groups

void note_authentication(Node& attrib, const std::string& /*before*/) {
  attrib.parent->child("param")->set("AuthMethod",
                                     attrib.is_set("authentication") ? "CHAP" : "CHAP,None");
}
constexpr Attribute kGroupAttribAttributes[] = {{.name = "authentication",
                                                 .value = "1",
                                                 .parse = parse_number,
                                                 .high = 1,
                                                 .after = note_authentication},
                                                number("cache_dynamic_acls", "0", 0, 1),
                                                number("default_cmdsn_depth", "64", 1, 512),
                                                number("default_erl", "0", 0, 2),
                                                number("demo_mode_discovery", "1", 0, 1),
                                                number("demo_mode_write_protect", "1", 0, 1),
                                                number("fabric_prot_type", "0", 0, 1),
                                                number("generate_node_acls", "0", 0, 1),
                                                number("login_keys_workaround", "1", 0, 1),
                                                number("login_timeout", "15", 5, 30),
                                                number("netif_timeout", "2", 2, 15),
                                                number("prod_mode_write_protect", "0", 0, 1),
                                                number("t10_pi", "0", 0, 1),
                                                number("tpg_enabled_sendtargets", "1", 0, 1)};
constexpr Kind kGroupAttrib{.attributes = kGroupAttribAttributes};

/// The kernel reads what digits there are, none is 0, and keeps the text.
Answer<std::string> parse_loose_number(const Written& written) {
  auto text = std::string(trimmed(written.text));
  std::uint64_t number = 0;
  const auto error = std::from_chars(text.data(), text.data() + text.size(), number).ec;
  const bool is_in_range = number >= written.attribute.low && number <= written.attribute.high;
  if (error == std::errc::result_out_of_range || !is_in_range || text.size() > kTextBytesMax)
    return std::unexpected(EINVAL);
  return text;
}
constexpr Attribute range(std::string_view name, std::string_view value, std::uint32_t low,
                          std::uint32_t high) {
  return {.name = name, .value = value, .parse = parse_loose_number, .low = low, .high = high};
}
constexpr Attribute choice(std::string_view name, std::string_view value) {
  return {.name = name, .value = value, .parse = parse_word, .words = "Yes|No"};
}
constexpr Attribute words(std::string_view name, std::string_view value, std::string_view words) {
  return {.name = name, .value = value, .parse = parse_word_list, .words = words};
}
constexpr Attribute any_text(std::string_view name, std::string_view value) {
  return {.name = name, .value = value, .parse = parse_text, .high = kTextBytesMax};
}
constexpr std::uint32_t kBytesMax = (1 << 24) - 1;
constexpr Attribute kGroupParamAttributes[] = {
    words("AuthMethod", "CHAP", "CHAP|None"),
    words("DataDigest", "CRC32C,None", "CRC32C|None"),
    choice("DataPDUInOrder", "Yes"),
    choice("DataSequenceInOrder", "Yes"),
    range("DefaultTime2Retain", "20", 0, 3600),
    range("DefaultTime2Wait", "2", 0, 3600),
    range("ErrorRecoveryLevel", "0", 0, 2),
    range("FirstBurstLength", "65536", 512, kBytesMax),
    words("HeaderDigest", "CRC32C,None", "CRC32C|None"),
    any_text("IFMarkInt", "Reject"),
    choice("IFMarker", "No"),
    choice("ImmediateData", "Yes"),
    choice("InitialR2T", "Yes"),
    range("MaxBurstLength", "262144", 512, kBytesMax),
    range("MaxConnections", "1", 1, 65535),
    range("MaxOutstandingR2T", "1", 1, 65535),
    range("MaxRecvDataSegmentLength", "8192", 512, kBytesMax),
    range("MaxXmitDataSegmentLength", "262144", 512, kBytesMax),
    any_text("OFMarkInt", "Reject"),
    choice("OFMarker", "No"),
    any_text("TargetAlias", "LIO Target")};
constexpr Kind kGroupParam{.attributes = kGroupParamAttributes};

constexpr Attribute kGroupAttributes[] = {
    {.name = "dynamic_sessions", .mode = kReadOnly, .show = show_or_nothing, .is_live = true},
    {.name = "enable", .value = "0", .parse = parse_flag}};
constexpr Group kGroupGroups[] = {{"acls", &kAcls},  {"attrib", &kGroupAttrib},
                                  {"auth", &kAuth},  {"lun", &kUnits},
                                  {"np", &kPortals}, {"param", &kGroupParam}};
constexpr Kind kPortalGroup{.attributes = kGroupAttributes, .groups = kGroupGroups};

constexpr std::uint32_t kProcessors = 2;

// --- Targets

constexpr Group kTargetGroups[] = {{"param", &kTargetParameters},
                                   {"fabric_statistics", &kIscsiStatistics}};
constexpr Kind kTarget{.groups = kTargetGroups,
                       .child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
                         const auto number = number_after("tpgt_", name);
                         if (!number || *number > 65535) return std::unexpected(EINVAL);
                         return &kPortalGroup;
                       }};

constexpr Attribute kDiscoveryAttributes[] = {
    {.name = "authenticate_target", .value = "0", .mode = kReadOnly},
    {.name = "enforce_discovery_auth", .value = "0", .parse = parse_strict, .high = 1},
    secret("password"),
    secret("password_mutual"),
    secret("userid"),
    secret("userid_mutual")};
constexpr Kind kDiscovery{.attributes = kDiscoveryAttributes};

/// Numbers of processors, with commas and dashes between. Nothing of ours asks for them.
Answer<std::string> parse_processors(const Written& written) {
  const std::string_view list = trimmed(written.text);
  if (list.size() > kTextBytesMax) return std::unexpected(EINVAL);
  for (const auto& range : list | std::views::split(',')) {
    for (const auto& processor : range | std::views::split('-')) {
      std::uint64_t number = 0;
      const char* const end = processor.data() + processor.size();
      const auto [stop, error] = std::from_chars(processor.data(), end, number);
      if (error == std::errc::invalid_argument || stop != end) return std::unexpected(EINVAL);
      if (error != std::errc{} || number > UINT32_MAX) return std::unexpected(EOVERFLOW);
      if (number > INT32_MAX) return std::unexpected(EINVAL);
      if (number >= kProcessors) return std::unexpected(ERANGE);
    }
  }
  return std::string(list);
}
constexpr Attribute kIscsiAttributes[] = {
    {.name = "cpus_allowed_list", .value = "0-1", .parse = parse_processors},
    {.name = "lio_version", .value = "Datera Inc. iSCSI Target v4.1.0", .mode = kReadOnly}};
constexpr Group kIscsiGroups[] = {{"discovery_auth", &kDiscovery}};

constexpr Attribute kParameterAttributes[] = {
    {.name = "cmd_completion_affinity", .value = "-1", .parse = parse_word, .words = "-2|-1|0|1"}};

}  // namespace

constexpr Kind kTargetParameters{.attributes = kParameterAttributes};
constexpr Kind kIscsi{
    .attributes = kIscsiAttributes,
    .groups = kIscsiGroups,
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kTarget; }};

}  // namespace verbatim::ulp::target_tree
