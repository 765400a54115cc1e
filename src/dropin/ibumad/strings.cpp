#include <algorithm>
#include <iterator>
#include <span>

#include "dropin/ibumad/umad.h"

/// Names of what stands in a datagram, as libibumad has them: programs print and compare them.
namespace {

struct Name {
  unsigned number;
  const char* text;
};

constexpr const char* kUnknown = "<unknown>";

const char* find(std::span<const Name> names, unsigned number) {
  const auto found = std::ranges::find(names, number, &Name::number);
  return found == names.end() ? nullptr : found->text;
}

constexpr Name kClasses[] = {
    {0x01, "Subn"},    {0x81, "Subn"}, {0x03, "SubnAdm"},
    {0x04, "Perf"},    {0x05, "BM"},   {0x06, "DevMgt"},
    {0x07, "ComMgt"},  {0x08, "SNMP"}, {0x10, "DevAdm"},
    {0x11, "BootMgt"}, {0x12, "BIS"},  {0x21, "CongestionManagment"},  // Spelled so.
};

constexpr Name kMethods[] = {
    {0x01, "Get"},    {0x02, "Set"},         {0x03, "Send"},    {0x05, "Trap"},
    {0x06, "Report"}, {0x07, "TrapRepress"}, {0x81, "GetResp"}, {0x86, "ReportResp"},
};

constexpr Name kAdministrationMethods[] = {
    {0x12, "GetTable"},     {0x13, "GetTraceTable"}, {0x14, "GetMulti"},   {0x15, "Delete"},
    {0x92, "GetTableResp"}, {0x94, "GetMultiResp"},  {0x95, "DeleteResp"},
};

constexpr Name kCommonAttributes[] = {
    {0x01, "Class Port Info"},
    {0x02, "Notice"},
    {0x03, "Inform Info"},
};

constexpr Name kSubnetAttributes[] = {
    {0x10, "NodeDescription"},
    {0x11, "NodeInfo"},
    {0x12, "SwitchInfo"},
    {0x14, "GUIDInfo"},
    {0x15, "PortInfo"},
    {0x16, "P_KeyTable"},
    {0x17, "SLtoVLMappingTable"},
    {0x18, "VLArbitrationTable"},
    {0x19, "LinearForwardingTable"},
    {0x1a, "RandomForwardingTable"},
    {0x1b, "MulticastForwardingTable"},
    {0x1c, "LinkSpeedWidthPairsTable"},
    {0x1d, "VendorSpecificMadsTable"},
    {0x1e, "HierarchyInfo"},
    {0x20, "SMInfo"},
    {0x30, "VendorDiag"},
    {0x31, "LedInfo"},
    {0x32, "CableInfo"},
    {0x33, "PortInfoExtended"},
};

constexpr Name kAdministrationAttributes[] = {
    {0x11, "NodeRecord"},
    {0x12, "PortInfoRecord"},
    {0x13, "SLtoVLMappingTableRecord"},
    {0x14, "SwitchInfoRecord"},
    {0x15, "LinearForwardingTableRecord"},
    {0x16, "RandomForwardingTableRecord"},
    {0x17, "MulticastForwardingTableRecord"},
    {0x18, "SMInfoRecord"},
    {0x19, "LinkSpeedWidthPairsTableRecord"},
    {0x20, "LinkRecord"},
    {0x30, "GuidInfoRecord"},
    {0x31, "ServiceRecord"},
    {0x33, "P_KeyTableRecord"},
    {0x35, "PathRecord"},
    {0x36, "VLArbitrationTableRecord"},
    {0x38, "MCMemberRecord"},
    {0x39, "TraceRecord"},
    {0x3a, "MultiPathRecord"},
    {0x3b, "ServiceAssociationRecord"},
    {0x3c, "HierarchyInfoRecord"},
    {0x3d, "CableInfoRecord"},
    {0x3e, "PortInfoExtendedRecord"},
    {0xf3, "InformInfoRecord"},
};

constexpr Name kConnectionAttributes[] = {
    {0x10, "ConnectRequest"},
    {0x11, "MsgRcptAck"},
    {0x12, "ConnectReject"},
    {0x13, "ConnectReply"},
    {0x14, "ReadyToUse"},
    {0x15, "DisconnectRequest"},
    {0x16, "DisconnectReply"},
    {0x17, "ServiceIDResReq"},
    {0x18, "ServiceIDResReqResp"},
    {0x19, "LoadAlternatePath"},
    {0x1a, "AlternatePathResponse"},
    {0x1b, "SuggestAlternatePath"},
    {0x1c, "SuggestPathResponse"},
};

constexpr const char* kAdministrationStatus[] = {
    "Success",           "No Resources", "Request Invalid",         "No Records",
    "Too Many Records",  "Invalid GID",  "Insufficient Components", "Request Denied",
    "Priority Suggested"};

std::span<const Name> attributes_of(unsigned management_class) {
  switch (management_class) {
    case UMAD_CLASS_SUBN_LID_ROUTED:
    case UMAD_CLASS_SUBN_DIRECTED_ROUTE:
      return kSubnetAttributes;
    case UMAD_CLASS_SUBN_ADM:
      return kAdministrationAttributes;
    case UMAD_CLASS_CM:
      return kConnectionAttributes;
    default:
      return {};
  }
}

}  // namespace

extern "C" {

const char* umad_class_str(uint8_t mgmt_class) {
  if (const char* const name = find(kClasses, mgmt_class)) return name;
  const bool is_vendor =
      (mgmt_class >= UMAD_CLASS_VENDOR_RANGE1_START &&
       mgmt_class <= UMAD_CLASS_VENDOR_RANGE1_END) ||
      (mgmt_class >= UMAD_CLASS_VENDOR_RANGE2_START && mgmt_class <= UMAD_CLASS_VENDOR_RANGE2_END);
  if (is_vendor) return "Vendor";
  const bool is_application =
      mgmt_class >= UMAD_CLASS_APPLICATION_START && mgmt_class <= UMAD_CLASS_APPLICATION_END;
  return is_application ? "Application" : kUnknown;
}

const char* umad_method_str(uint8_t mgmt_class, uint8_t method) {
  if (const char* const name = find(kMethods, method)) return name;
  if (mgmt_class == UMAD_CLASS_SUBN_ADM) {
    if (const char* const name = find(kAdministrationMethods, method)) return name;
  }
  return "<unknown";  // The original's bracket is missing, too.
}

const char* umad_attribute_str(uint8_t mgmt_class, __be16 attr_id) {
  const unsigned attribute = be16toh(attr_id);
  if (const char* const name = find(kCommonAttributes, attribute)) return name;
  const char* const name = find(attributes_of(mgmt_class), attribute);
  return name != nullptr ? name : kUnknown;
}

const char* umad_common_mad_status_str(__be16 status) {
  const unsigned bits = be16toh(status);
  if ((bits & UMAD_STATUS_BUSY) != 0) return "Busy";
  if ((bits & UMAD_STATUS_REDIRECT) != 0) return "Redirection required";
  switch (bits & UMAD_STATUS_INVALID_FIELD_MASK) {
    case UMAD_STATUS_BAD_VERSION:
      return "Bad Version";
    case UMAD_STATUS_METHOD_NOT_SUPPORTED:
      return "Method not supported";
    case UMAD_STATUS_ATTR_NOT_SUPPORTED:
      return "Method/Attribute combo not supported";
    case UMAD_STATUS_INVALID_ATTR_VALUE:
      return "Invalid attribute/modifier field";
    default:
      return "Success";
  }
}

const char* umad_sa_mad_status_str(__be16 status) {
  const unsigned code = be16toh(status) >> 8;
  return code < std::size(kAdministrationStatus) ? kAdministrationStatus[code] : "Undefined Error";
}

}  // extern "C"
