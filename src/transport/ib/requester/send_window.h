#pragma once

#include <algorithm>
#include <cstdint>

namespace verbatim::transport {

/// Number of bytes that may be in flight. On the wire path all queue pairs of a program share small
/// socket receive buffers, and a loss costs far more than a smaller window: the lost tail of a
/// burst is noticed only by time. So the window starts at a size that fits in a 208 KiB socket
/// buffer.
///
/// A loss means that the window was too large, or that a packet was damaged by chance. In both
/// cases the window halves. It then grows back fast: each full window that is acknowledged without
/// loss closes a quarter of the gap to the ceiling. At the ceiling it grows by one step per
/// `windows_per_step_` such windows. A loss right after a step, or within 16 windows of the last
/// loss, is taken for a buffer overflow: the ceiling comes down (by a step, or half way to the
/// halved window) and `windows_per_step_` doubles. Any other loss is taken for chance and halves
/// `windows_per_step_`.
///
/// A packet counts its payload plus `kPacketOverheadBytes`, about the kernel's overhead in a
/// socket's buffer, so that small messages do not overflow the buffer either.
class SendWindow {
 public:
  static constexpr std::uint32_t kPacketOverheadBytes = 512;
  static constexpr std::uint32_t kStartBytes = 128 << 10;
  static constexpr std::uint32_t kWindowsPerStepMax = 1024;
  /// After this many windows without a loss, the next loss is taken for chance.
  static constexpr std::uint32_t kWindowsByChance = 16;

  /// `packet_bytes`: the cost of a full packet, which is the smallest window and the step. If the
  /// link is lossless, the window stays at `bytes_max`: the link's credits hold packets back.
  void start(std::uint32_t packet_bytes, std::uint32_t bytes_max, bool lossless = false) {
    packet_bytes_ = packet_bytes;
    bytes_max_ = std::max(bytes_max, packet_bytes);
    lossless_ = lossless;
    bytes_ = ceiling_ = lossless ? bytes_max_ : std::clamp(kStartBytes, packet_bytes_, bytes_max_);
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
  /// The window has held a packet back; only then growing helps.
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
  /// Called once for each window with a loss.
  void on_loss() {
    if (lossless_) return;
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
  std::uint32_t ceiling_ = 0;        // Size at which losses began; at least `bytes_`.
  std::uint64_t acknowledged_ = 0;   // Since the last full window.
  std::uint32_t clean_windows_ = 0;  // Since the last step.
  std::uint32_t since_loss_ = 0;     // Windows without a loss.
  std::uint32_t windows_per_step_ = 1;
  bool lossless_ = false;
  bool was_full_ = false;
  bool has_stepped_ = false;  // Since the last loss.
};

}  // namespace verbatim::transport
