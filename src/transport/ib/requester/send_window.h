#pragma once

#include <algorithm>
#include <cstdint>

namespace verbatim::transport {

/// How many bytes may be in flight. The wire path runs over sockets whose receive buffer is small
/// and shared by all queue pairs of a program, and a loss costs far more than a smaller window: a
/// burst's lost tail is noticed by time only. So the window starts where a 208 KiB socket buffer
/// holds it.
///
/// A loss says that the window was too large, or nothing (a packet was damaged on its way). So it
/// halves, but comes back fast: each window that was full and came back whole closes a quarter of
/// the gap to the ceiling. Beyond the ceiling it grows by one step for some number of such windows.
/// A loss right after a step, or soon after the last loss, tells of a buffer that overflows: the
/// ceiling comes down, by a step or half way to the halved window, and that number doubles, so that
/// probing where it hurts becomes rare. Any other is a chance, and halves the number.
///
/// A packet counts its payload and `kPacketOverheadBytes`: about what the kernel charges a socket's
/// buffer for it, so that small messages do not overrun the buffer either.
class SendWindow {
 public:
  static constexpr std::uint32_t kPacketOverheadBytes = 512;
  static constexpr std::uint32_t kStartBytes = 128 << 10;
  static constexpr std::uint32_t kWindowsPerStepMax = 1024;
  /// After so many windows without one, a loss is a chance.
  static constexpr std::uint32_t kWindowsByChance = 16;

  /// `packet_bytes` is the cost of a full packet: the smallest window and the step.
  void start(std::uint32_t packet_bytes, std::uint32_t bytes_max) {
    packet_bytes_ = packet_bytes;
    bytes_max_ = std::max(bytes_max, packet_bytes);
    bytes_ = ceiling_ = std::clamp(kStartBytes, packet_bytes_, bytes_max_);
    acknowledged_ = clean_windows_ = since_loss_ = 0;
    windows_per_step_ = 1;
    was_full_ = has_stepped_ = false;
  }
  void set_max(std::uint32_t bytes_max) {
    bytes_max_ = std::max(bytes_max, packet_bytes_);
    bytes_ = std::min(bytes_, bytes_max_);
    ceiling_ = std::min(ceiling_, bytes_max_);
  }

  std::uint32_t bytes() const { return bytes_; }
  std::uint32_t quarter() const { return bytes_ / 4; }
  /// The window held a packet back: only then does growing serve anything.
  void note_full() { was_full_ = true; }

  void on_acknowledged(std::uint64_t bytes) {
    acknowledged_ += bytes;
    if (acknowledged_ < bytes_) return;
    acknowledged_ = 0;
    if (!was_full_) return;
    was_full_ = false;
    ++since_loss_;
    if (bytes_ < ceiling_) {
      bytes_ = std::min(bytes_ + std::max((ceiling_ - bytes_) / 4, packet_bytes_), ceiling_);
      return;
    }
    if (++clean_windows_ < windows_per_step_) return;
    clean_windows_ = 0;
    bytes_ = ceiling_ = std::min(bytes_ + std::max(packet_bytes_, bytes_ / 16), bytes_max_);
    windows_per_step_ = std::max(windows_per_step_ - windows_per_step_ / 16, 1u);
    has_stepped_ = true;
  }
  /// Once for each window of packets that lost some.
  void on_loss() {
    const bool by_step = has_stepped_ && clean_windows_ < 2;
    if (by_step || since_loss_ < kWindowsByChance) {
      ceiling_ = by_step ? bytes_ - bytes_ / 8 : ceiling_ / 2 + bytes_ / 4;
      ceiling_ = std::max(ceiling_, packet_bytes_);
      windows_per_step_ = std::min(windows_per_step_ * 2, kWindowsPerStepMax);
    } else {
      windows_per_step_ = std::max(windows_per_step_ / 2, 1u);
    }
    bytes_ = std::max(bytes_ / 2, packet_bytes_);
    acknowledged_ = clean_windows_ = since_loss_ = 0;
    was_full_ = has_stepped_ = false;
  }

 private:
  std::uint32_t packet_bytes_ = 0;
  std::uint32_t bytes_ = 0;
  std::uint32_t bytes_max_ = 0;
  std::uint32_t ceiling_ = 0;        // Where it hurt; at least `bytes_`.
  std::uint64_t acknowledged_ = 0;   // Since the last full window.
  std::uint32_t clean_windows_ = 0;  // Since the last step.
  std::uint32_t since_loss_ = 0;     // Windows that came back whole.
  std::uint32_t windows_per_step_ = 1;
  bool was_full_ = false;
  bool has_stepped_ = false;  // Since the last loss.
};

}  // namespace verbatim::transport
