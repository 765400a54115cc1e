#include "ulp/scsi/sense.h"

#include <limits>

#include "base/bytes.h"
#include "base/types.h"

namespace verbatim::ulp::scsi {

namespace {

/// The two values of the first byte: current errors in each of the two forms.
constexpr std::byte kFixed{0x70};
constexpr std::byte kDescriptor{0x72};

void extend(SenseBytes& bytes, std::size_t size) {
  while (bytes.size() < size) bytes.push(std::byte{0});
}

/// Sense-key specific data, 3 bytes: a field pointer.
///
///     byte  0                                   1-2
///          +-+-+---+----+-----------------------+---------------+
///          |1|C|   |BPV | bit pointer (3 bits)  | field pointer |
///          +-+-+---+----+-----------------------+---------------+
void store_field(std::byte* at, const FieldPointer& field) {
  unsigned first = 0x80;
  if (!field.is_in_parameters) first |= 0x40;
  if (field.bit) first |= 0x08u | *field.bit;
  at[0] = static_cast<std::byte>(first);
  store_be<std::uint16_t>(at + 1, field.byte);
}

/// SPC-4, 4.5.3.
///
///     byte  0      2    3-6          7      12   13    15-17
///          +------+----+------------+------+----+-----+-----------+
///          |V|70h | key| information| 0ah  |ASC | ASCQ| field     |
///          +------+----+------------+------+----+-----+-----------+
SenseBytes encode_fixed(const Sense& sense) {
  SenseBytes bytes;
  extend(bytes, 18);
  bytes[0] = kFixed;
  // 32 bits: what does not fit is not valid.
  if (sense.information && *sense.information <= std::numeric_limits<std::uint32_t>::max()) {
    bytes[0] |= std::byte{0x80};
    store_be(&bytes[3], static_cast<std::uint32_t>(*sense.information));
  }
  bytes[2] = static_cast<std::byte>(sense.key);
  bytes[7] = std::byte{0x0a};
  store_be(&bytes[12], raw(sense.code));
  if (sense.field) store_field(&bytes[15], *sense.field);
  return bytes;
}

/// SPC-4, 4.5.2: 8 bytes, then descriptors.
///
///     byte  0     1    2    3     7        then  0     1    4
///          +-----+----+----+-----+--------+     +-----+----+---------------------+
///          | 72h | key|ASC |ASCQ | length |     | type| len| type 2: field       |
///          +-----+----+----+-----+--------+     +-----+----+---------------------+
SenseBytes encode_descriptors(const Sense& sense) {
  SenseBytes bytes;
  extend(bytes, 8);
  bytes[0] = kDescriptor;
  bytes[1] = static_cast<std::byte>(sense.key);
  store_be(&bytes[2], raw(sense.code));
  if (sense.information) {
    const std::size_t at = bytes.size();
    extend(bytes, at + 12);
    bytes[at + 1] = std::byte{0x0a};
    bytes[at + 2] = std::byte{0x80};
    store_be(&bytes[at + 4], *sense.information);
  }
  if (sense.field) {
    const std::size_t at = bytes.size();
    extend(bytes, at + 8);
    bytes[at] = std::byte{0x02};
    bytes[at + 1] = std::byte{0x06};
    store_field(&bytes[at + 4], *sense.field);
  }
  bytes[7] = static_cast<std::byte>(bytes.size() - 8);
  return bytes;
}

}  // namespace

SenseBytes encode(const Sense& sense, SenseFormat format) {
  return format == SenseFormat::fixed ? encode_fixed(sense) : encode_descriptors(sense);
}

}  // namespace verbatim::ulp::scsi
