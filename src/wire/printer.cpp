#include "wire/printer.h"

#include <iterator>
#include <string_view>

#include <fmt/format.h>

namespace verbatim::wire {
namespace {

std::string_view service_name(Service service) {
  switch (service) {
    case Service::rc:
      return "RC";
    case Service::uc:
      return "UC";
    case Service::rd:
      return "RD";
    case Service::ud:
      return "UD";
    case Service::cnp:
      return "CNP";
    case Service::xrc:
      return "XRC";
  }
  return "?";
}

/// Verbs with a single packet have no position in their names.
struct VerbName {
  std::string_view text;
  bool has_position;
};

VerbName verb_name(Verb verb) {
  switch (verb) {
    case Verb::send:
      return {"SEND", true};
    case Verb::write:
      return {"RDMA_WRITE", true};
    case Verb::read_request:
      return {"RDMA_READ_REQUEST", false};
    case Verb::read_response:
      return {"RDMA_READ_RESPONSE", true};
    case Verb::acknowledge:
      return {"ACKNOWLEDGE", false};
    case Verb::atomic_acknowledge:
      return {"ATOMIC_ACKNOWLEDGE", false};
    case Verb::compare_swap:
      return {"COMPARE_SWAP", false};
    case Verb::fetch_add:
      return {"FETCH_ADD", false};
    case Verb::flush:
      return {"FLUSH", false};
    case Verb::atomic_write:
      return {"ATOMIC_WRITE", false};
  }
  return {"?", false};
}

std::string_view position_name(Position position) {
  switch (position) {
    case Position::first:
      return "_FIRST";
    case Position::middle:
      return "_MIDDLE";
    case Position::last:
      return "_LAST";
    case Position::only:
      return "_ONLY";
  }
  return "?";
}

std::string_view nak_name(NakCode code) {
  switch (code) {
    case NakCode::psn_sequence_error:
      return "PSN sequence error";
    case NakCode::invalid_request:
      return "invalid request";
    case NakCode::remote_access_error:
      return "remote access error";
    case NakCode::remote_operational_error:
      return "remote operational error";
    case NakCode::invalid_rd_request:
      return "invalid RD request";
  }
  return "?";
}

std::string describe_syndrome(Syndrome syndrome) {
  switch (syndrome.kind()) {
    case Syndrome::Kind::ack:
      return fmt::format("ack credits {}", syndrome.credit_count());
    case Syndrome::Kind::rnr_nak:
      return fmt::format("RNR NAK timer {} ({} us)", syndrome.rnr_timer_code(),
                         syndrome.rnr_timer_ns() / kMicrosecond);
    case Syndrome::Kind::nak:
      return fmt::format("NAK {}", nak_name(syndrome.nak_code()));
  }
  return "?";
}

}  // namespace

std::string opcode_name(Opcode opcode) {
  const OpcodeInfo& row = info(opcode);
  if (!row.known) return fmt::format("opcode {:#04x}", raw(opcode));
  const VerbName verb = verb_name(row.verb);
  return fmt::format("{} {}{}{}{}", service_name(row.service), verb.text,
                     verb.has_position ? position_name(row.position) : "",
                     row.has(kImmediate) ? "_WITH_IMMEDIATE" : "",
                     row.has(kIeth) ? "_WITH_INVALIDATE" : "");
}

std::string describe(const Headers& headers) {
  const Bth& bth = headers.bth;
  const OpcodeInfo& row = info(bth.opcode);
  std::string line = fmt::format("{} qpn {:#x} psn {:#x} pkey {:#x}", opcode_name(bth.opcode),
                                 bth.dest_qp.value(), bth.psn.value(), raw(bth.pkey));
  const auto out = std::back_inserter(line);
  if (bth.solicited_event) line += " solicited";
  if (bth.ack_request) line += " ack-request";
  if (row.has(kXrcEth)) fmt::format_to(out, " srq {:#x}", raw(headers.xrc_eth.srq));
  if (row.has(kDeth)) {
    fmt::format_to(out, " qkey {:#x} source qpn {:#x}", raw(headers.deth.qkey),
                   headers.deth.source_qp.value());
  }
  if (row.has(kFeth)) {
    fmt::format_to(out, " placement {:#x} of the {}", headers.feth.placement,
                   headers.feth.selectivity == Feth::Selectivity::range ? "range" : "region");
  }
  if (row.has(kReth)) {
    fmt::format_to(out, " address {:#x} rkey {:#x} length {}", headers.reth.address,
                   raw(headers.reth.key), headers.reth.length);
  }
  if (row.has(kAtomicEth)) {
    fmt::format_to(out, " address {:#x} rkey {:#x} swap-or-add {:#x} compare {:#x}",
                   headers.atomic_eth.address, raw(headers.atomic_eth.key),
                   headers.atomic_eth.swap_or_add, headers.atomic_eth.compare);
  }
  if (row.has(kAeth)) {
    fmt::format_to(out, " {} msn {}", describe_syndrome(headers.aeth.syndrome),
                   headers.aeth.msn.value());
  }
  if (row.has(kAtomicAckEth)) fmt::format_to(out, " original {:#x}", headers.atomic_ack);
  if (row.has(kImmediate)) {
    fmt::format_to(out, " immediate {:#x}", to_big_endian(headers.immediate));
  }
  if (row.has(kIeth)) fmt::format_to(out, " invalidates {:#x}", raw(headers.invalidate_key));
  return line;
}

std::string describe(const Packet& packet) {
  return fmt::format("{} payload {} pad {}", describe(packet.headers), packet.payload.size(),
                     packet.headers.bth.pad_count);
}

}  // namespace verbatim::wire
