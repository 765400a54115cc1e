#pragma once

#include <string>

#include "wire/ib/packet.h"

/// Packets in words, for logs, traces and failing tests; never on the packet path.
namespace verbatim::wire {

/// The specification's name: "RC SEND_ONLY_WITH_IMMEDIATE", or "opcode 0x15" for one that is not in
/// the table.
std::string opcode_name(Opcode opcode);

/// One line: opcode, queue pair, PSN, flags, each extended header that the opcode has, and payload
/// bytes.
std::string describe(const Packet& packet);
std::string describe(const Headers& headers);

}  // namespace verbatim::wire
