#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <variant>

#include "wire/mad/cm_alternate_path.h"
#include "wire/mad/cm_disconnect.h"
#include "wire/mad/cm_reject.h"
#include "wire/mad/cm_reply.h"
#include "wire/mad/cm_request.h"
#include "wire/mad/cm_sidr.h"

namespace verbatim::wire {

/// A message of the communication manager (IBA 12.6, table 105). Its attribute id is 0x10 plus its
/// index in this list.
using CmMessage = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq,
                               CmSidrRep, CmLap, CmApr>;

inline constexpr std::uint8_t kCmClassVersion = 2;
inline constexpr std::uint16_t kCmFirstAttribute = 0x10;

/// A message, and the fields of its MAD header that matter. All messages of one exchange have the
/// transaction id of the first.
struct CmMad {
  std::uint64_t transaction = 0;
  CmMessage message{};
  friend bool operator==(const CmMad&, const CmMad&) = default;
};

/// Checks length, versions, class, method and attribute.
std::expected<CmMad, WireError> decode_cm(ByteSpan mad);
void encode(const CmMad& mad, std::span<std::byte, kMadBytes> out);

/// Returns the specification's name: "REQ", "SIDR_REP".
const char* name_of(const CmMessage& message);

}  // namespace verbatim::wire
