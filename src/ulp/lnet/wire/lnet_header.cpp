#include "ulp/lnet/wire/lnet_header.h"

#include <algorithm>

#include "ulp/engine/little_endian.h"

namespace verbatim::ulp::lnet {
namespace {

/// Walks over the fields of an operation, the same for both ways.
template <typename Header, typename Field>
void visit_operation(Header& header, Field field) {
  field(32, header.handle.interface);
  field(40, header.handle.object);
  switch (header.operation) {
    case Operation::put:
      field(48, header.match_bits);
      field(56, header.data);
      field(64, header.portal);
      return field(68, header.offset);
    case Operation::get:
      field(48, header.match_bits);
      field(56, header.portal);
      field(60, header.offset);
      return field(64, header.bytes);
    case Operation::ack:
      field(48, header.match_bits);
      return field(56, header.bytes);
    default:
      return;
  }
}

}  // namespace

LnetHeader decode_header(std::span<const std::byte, LnetHeader::kSize> bytes) {
  const auto load = [&]<typename T>(std::size_t at, T& value) {
    value = load_le<T>(bytes.data() + at);
  };
  LnetHeader header;
  std::uint32_t operation = 0;
  load(0, header.destination.value);
  load(8, header.source.value);
  load(16, header.destination_pid);
  load(20, header.source_pid);
  load(24, operation);
  load(28, header.payload_bytes);
  header.operation = Operation{operation};
  visit_operation(header, load);
  return header;
}

void encode(const LnetHeader& header, std::span<std::byte, LnetHeader::kSize> out) {
  std::ranges::fill(out, std::byte{0});
  const auto store = [&]<typename T>(std::size_t at, const T& value) {
    store_le(out.data() + at, value);
  };
  store(0, header.destination.value);
  store(8, header.source.value);
  store(16, header.destination_pid);
  store(20, header.source_pid);
  store(24, static_cast<std::uint32_t>(header.operation));
  store(28, header.payload_bytes);
  visit_operation(header, store);
}

}  // namespace verbatim::ulp::lnet
