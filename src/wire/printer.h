#pragma once

#include <string>

#include "wire/ib/packet.h"

/// Packets as text, for logs, traces and failing tests; never on the packet path.
namespace verbatim::wire {

/// Returns the specification's name: "RC SEND_ONLY_WITH_IMMEDIATE", or "opcode 0x15" for an unknown
/// one.
std::string opcode_name(Opcode opcode);

/// Returns one line: opcode, queue pair, PSN, flags, the opcode's extended headers, and payload
/// bytes.
std::string describe(const Packet& packet);
std::string describe(const Headers& headers);

}  // namespace verbatim::wire
