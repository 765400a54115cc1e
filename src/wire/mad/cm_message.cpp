#include "wire/mad/cm_message.h"

#include <array>

namespace verbatim::wire {
namespace {

using Decode = CmMessage (*)(CmBody body);

template <auto decode>
CmMessage decode_as(CmBody body) {
  return decode(body);
}

/// In the order of attribute ids.
constexpr std::array<Decode, std::variant_size_v<CmMessage>> kDecoders{
    &decode_as<decode_cm_req>,  &decode_as<decode_cm_mra>,      &decode_as<decode_cm_rej>,
    &decode_as<decode_cm_rep>,  &decode_as<decode_cm_rtu>,      &decode_as<decode_cm_dreq>,
    &decode_as<decode_cm_drep>, &decode_as<decode_cm_sidr_req>, &decode_as<decode_cm_sidr_rep>,
    &decode_as<decode_cm_lap>,  &decode_as<decode_cm_apr>,
};

constexpr std::array<const char*, std::variant_size_v<CmMessage>> kNames{
    "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};

}  // namespace

std::expected<CmMad, WireError> decode_cm(ByteSpan mad) {
  const auto header = decode_mad_header(mad);
  if (!header) return std::unexpected(header.error());
  if (header->management_class != MadClass::communication_management ||
      header->class_version != kCmClassVersion) {
    return std::unexpected(WireError::mad_class);
  }
  const unsigned index = header->attribute - unsigned{kCmFirstAttribute};
  if (header->method != MadMethod::send || index >= kDecoders.size()) {
    return std::unexpected(WireError::mad_attribute);
  }
  return CmMad{.transaction = header->transaction,
               .message = kDecoders[index](mad.subspan<MadHeader::kSize, kMadDataBytes>())};
}

void encode(const CmMad& mad, std::span<std::byte, kMadBytes> out) {
  const MadHeader header{
      .management_class = MadClass::communication_management,
      .class_version = kCmClassVersion,
      .method = MadMethod::send,
      .transaction = mad.transaction,
      .attribute = static_cast<std::uint16_t>(kCmFirstAttribute + mad.message.index())};
  encode(header, out.first<MadHeader::kSize>());
  std::visit(
      [out](const auto& message) {
        encode(message, out.subspan<MadHeader::kSize, kMadDataBytes>());
      },
      mad.message);
}

const char* name_of(const CmMessage& message) { return kNames[message.index()]; }

}  // namespace verbatim::wire
