#include "link/capture_file/capture_merge.h"

#include <utility>

namespace verbatim::link {

void CaptureMerge::add(std::uint32_t program, CaptureReader reader) {
  for (Source& source : sources_) source.has_ended |= source.program == program;
  sources_.push_back({.program = program, .reader = std::move(reader)});
}

/// Each ring's next packet; rings that will have none go.
void CaptureMerge::read_ahead() {
  for (auto source = sources_.begin(); source != sources_.end();) {
    CaptureReader& reader = source->reader;
    if (!source->has_packet) source->has_packet = reader.next(source->packet, source->bytes);
    if (source->has_packet || !(source->has_ended || reader.is_damaged())) {
      ++source;
      continue;
    }
    packets_ += reader.packets();
    dropped_ += reader.dropped();
    damaged_ += reader.is_damaged() ? 1 : 0;
    source = sources_.erase(source);
  }
}

bool CaptureMerge::next(TimeNs horizon, CapturedPacket& packet, ByteSpan& bytes) {
  read_ahead();
  Source* earliest = nullptr;
  for (Source& source : sources_) {
    if (!source.has_packet || source.packet.time >= horizon) continue;
    if (earliest == nullptr || source.packet.time < earliest->packet.time) earliest = &source;
  }
  if (earliest == nullptr) return false;
  packet = earliest->packet;
  bytes = earliest->bytes;
  earliest->has_packet = false;
  return true;
}

std::uint64_t CaptureMerge::packets() const {
  std::uint64_t all = packets_;
  for (const Source& source : sources_) all += source.reader.packets();
  return all;
}

std::uint64_t CaptureMerge::dropped() const {
  std::uint64_t all = dropped_;
  for (const Source& source : sources_) all += source.reader.dropped();
  return all;
}

}  // namespace verbatim::link
