// Writes one packet of each opcode over IPv4 and one over IPv6 to a capture file, and their fields
// to a JSON file, so that judge.py can compare what tshark and scapy decode with what was meant.

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/wire_judge/capture.h"
#include "wire/ib/packet.h"
#include "wire/printer.h"

namespace {

using namespace verbatim;         // NOLINT: a program of one file.
using namespace verbatim::wire;   // NOLINT
using namespace verbatim::judge;  // NOLINT

/// Sets every field of the opcode, each to a different value. `number` varies fields with few
/// values.
Headers sample(Opcode opcode, unsigned number) {
  const OpcodeInfo& row = info(opcode);
  Headers headers;
  headers.bth = {.opcode = opcode,
                 .solicited_event = number % 2 == 0,
                 .migrated = number % 3 == 0,
                 .pad_count = static_cast<std::uint8_t>(row.has_payload ? number % 4 : 0),
                 .pkey = static_cast<PKey>(0x8000 + number),
                 .dest_qp = Qpn(0x123400 + number),
                 .ack_request = number % 5 == 0,
                 .psn = Psn(0xfedc00 + number)};
  headers.deth = {.qkey = QKey{0x11121314}, .source_qp = Qpn(0x212223)};
  headers.reth = {
      .address = 0x3132333435363738, .key = MemoryKey{0x41424344}, .length = 0x51525354};
  headers.atomic_eth = {.address = 0x6162636465666768,
                        .key = MemoryKey{0x71727374},
                        .swap_or_add = 0x8182838485868788,
                        .compare = 0x9192939495969798};
  constexpr std::array kSyndromes{Syndrome::ack(), Syndrome::ack(3), Syndrome::rnr_nak(14),
                                  Syndrome::nak(NakCode::remote_access_error)};
  headers.aeth = {.syndrome = kSyndromes[number % kSyndromes.size()], .msn = Msn(0xa1a2a3)};
  headers.atomic_ack = 0xb1b2b3b4b5b6b7b8;
  headers.immediate = to_big_endian(0xc1c2c3c4u);
  headers.invalidate_key = MemoryKey{0xd1d2d3d4};
  return headers;
}

/// The names are tshark's, without "infiniband.".
std::string expected(const Headers& headers) {
  const Bth& bth = headers.bth;
  const OpcodeInfo& row = info(bth.opcode);
  std::string json = fmt::format(
      R"({{"name":"{}","bth.opcode":{},"bth.se":{:d},"bth.m":{:d},"bth.padcnt":{},"bth.tver":0,)"
      R"("bth.p_key":{},"bth.destqp":{},"bth.a":{:d},"bth.psn":{})",
      opcode_name(bth.opcode), raw(bth.opcode), bth.solicited_event, bth.migrated, bth.pad_count,
      raw(bth.pkey), bth.dest_qp.value(), bth.ack_request, bth.psn.value());
  const auto add = [&json](const char* name, std::uint64_t value) {
    json += fmt::format(R"(,"{}":{})", name, value);
  };
  if (row.has(kDeth)) {
    add("deth.q_key", raw(headers.deth.qkey));
    add("deth.srcqp", headers.deth.source_qp.value());
  }
  if (row.has(kReth)) {
    add("reth.va", headers.reth.address);
    add("reth.r_key", raw(headers.reth.key));
    add("reth.dmalen", headers.reth.length);
  }
  if (row.has(kAtomicEth)) {
    // tshark uses the RETH's names for the AtomicETH's address and key.
    add("reth.va", headers.atomic_eth.address);
    add("reth.r_key", raw(headers.atomic_eth.key));
    add("atomiceth.swapdt", headers.atomic_eth.swap_or_add);
    add("atomiceth.cmpdt", headers.atomic_eth.compare);
  }
  if (row.has(kAeth)) {
    add("aeth.syndrome", headers.aeth.syndrome.to_wire());
    add("aeth.msn", headers.aeth.msn.value());
  }
  if (row.has(kAtomicAckEth)) add("atomicacketh.origremdt", headers.atomic_ack);
  if (row.has(kImmediate)) add("immdt", to_big_endian(headers.immediate));
  if (row.has(kIeth)) add("ieth", raw(headers.invalidate_key));
  return json + "}";
}

/// Opcodes that the judges support: tshark 4.0 decodes neither annex A19 (FLUSH, ATOMIC WRITE) nor
/// XRC.
bool is_judged(const OpcodeInfo& row) {
  return row.service != Service::xrc && row.verb != Verb::flush && row.verb != Verb::atomic_write;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CAPTURE.pcap EXPECTED.json\n", argv[0]);
    return 2;
  }
  std::vector<std::vector<std::byte>> packets;
  std::string json;
  unsigned number = 0;
  for (const bool ipv4 : {true, false}) {
    for (unsigned i = 0; i < kOpcodes.size(); ++i) {
      if (!kOpcodes[i].known || !is_judged(kOpcodes[i])) continue;
      const Headers headers = sample(static_cast<Opcode>(i), number);
      const std::size_t payload_bytes =
          kOpcodes[i].has_payload ? 64 - headers.bth.pad_count : std::size_t{0};
      packets.push_back(datagram(flow(ipv4), static_cast<std::uint16_t>(number * 777), headers,
                                 counting_payload(payload_bytes)));
      json += (json.empty() ? "[\n" : ",\n") + expected(headers);
      ++number;
    }
  }
  write_capture(argv[1], packets);
  std::ofstream(argv[2]) << json << "\n]\n";
  return 0;
}
