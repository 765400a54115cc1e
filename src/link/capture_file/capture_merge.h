#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "base/bytes.h"
#include "base/time.h"
#include "link/decorators/capture_ring.h"

namespace verbatim::link {

/// The rings of several programs as one sequence of packets, by time. Each program has a number, of
/// which it has one ring at a time.
class CaptureMerge {
 public:
  /// The ring that this program had before, which has ended, is read to its end.
  void add(std::uint32_t program, CaptureReader reader);

  /// The earliest packet from before `horizon`, and its bytes, valid until the next call. False:
  /// there is none. A packet that its program was slow to write down comes late, if the horizon has
  /// passed its time.
  bool next(TimeNs horizon, CapturedPacket& packet, ByteSpan& bytes);

  // Of all rings, those that have been read to their end, too.
  std::uint64_t packets() const;
  std::uint64_t dropped() const;
  /// Rings whose rest could not be read.
  std::size_t damaged() const { return damaged_; }
  std::size_t rings() const { return sources_.size(); }

 private:
  struct Source {
    std::uint32_t program;
    CaptureReader reader;
    bool has_packet = false;  // These two are its next one.
    CapturedPacket packet{};
    ByteSpan bytes{};
    bool has_ended = false;
  };
  void read_ahead();

  std::list<Source> sources_;
  std::uint64_t packets_ = 0, dropped_ = 0;  // Of rings that are gone.
  std::size_t damaged_ = 0;
};

}  // namespace verbatim::link
