#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <rte_flow.h>

#include "offload/ring/layout.h"

namespace verbatim::offload::driver {

/// Moves fields out of an item's mask into a rule: what is left there at the end cannot be matched.
class Taker {
 public:
  explicit Taker(vnic_rule& rule) : rule_(rule), key_(&rule.key), mask_(&rule.mask) {}

  /// How far behind a field of an item's mask that of its `last` is.
  void begin(std::ptrdiff_t distance) { distance_ = distance; }
  /// `spec` and `mask` are fields of packed structures, of `size` bytes. With a `last` that is not
  /// zero the field is a range.
  template <typename To>
  void take(To vnic_match::* to, const void* spec, void* mask, std::size_t size = sizeof(To)) {
    std::byte* const last = static_cast<std::byte*>(mask) + distance_;
    auto* const key = reinterpret_cast<std::uint8_t*>(&(key_->*to));
    if (has_bits(last, mask, size)) {
      const auto at = static_cast<std::size_t>(key - reinterpret_cast<std::uint8_t*>(key_));
      add_range(at, spec, mask, last, size);
    } else {
      std::memcpy(key, spec, size);
      std::memcpy(&(mask_->*to), mask, size);
    }
    std::memset(mask, 0, size);
    std::memset(last, 0, size);
  }
  /// The header itself says what the field must be.
  void require_type(std::uint16_t type) {
    const std::uint8_t bytes[] = {static_cast<std::uint8_t>(type >> 8),
                                  static_cast<std::uint8_t>(type)};
    std::ranges::copy(bytes, key_->ether_type);
    std::ranges::fill(mask_->ether_type, 0xff);
  }
  void require_protocol(std::uint8_t protocol) {
    key_->protocol = protocol;
    mask_->protocol = 0xff;
  }
  void fragment(std::uint8_t value, std::uint8_t mask) {
    key_->fragment = value;
    mask_->fragment = mask;
  }
  vnic_match& key() { return *key_; }
  vnic_match& mask() { return *mask_; }

  /// From here on fields are those of what is in a tunnel. `port`: of UDP; 0: it is not by UDP.
  /// Returns false if there is a tunnel already, or the items before ask for another port.
  bool enter(std::uint8_t kind, std::uint8_t protocol, std::uint16_t port) {
    if (is_inside()) return false;
    require_protocol(protocol);
    if (port != 0) {
      const std::uint8_t wanted[] = {static_cast<std::uint8_t>(port >> 8),
                                     static_cast<std::uint8_t>(port)};
      for (std::size_t i = 0; i < 2; ++i) {
        if (((key_->destination_port[i] ^ wanted[i]) & mask_->destination_port[i]) != 0) {
          return false;
        }
      }
      std::ranges::copy(wanted, key_->destination_port);
      std::ranges::fill(mask_->destination_port, 0xff);
    }
    rule_.has_more = 1;
    rule_.more.tunnel.kind = kind;
    rule_.more.tunnel_mask.kind = 0xff;
    key_ = &rule_.more.tunnel.inner;
    mask_ = &rule_.more.tunnel_mask.inner;
    return true;
  }
  bool is_inside() const { return key_ != &rule_.key; }
  void take_tunnel_id(const void* spec, void* mask, std::size_t at, std::size_t size) {
    std::memcpy(rule_.more.tunnel.id + at, spec, size);
    std::memcpy(rule_.more.tunnel_mask.id + at, mask, size);
    std::memset(mask, 0, size);
  }
  void take_tunnel_protocol(const void* spec, void* mask) {
    std::memcpy(rule_.more.tunnel.protocol, spec, 2);
    std::memcpy(rule_.more.tunnel_mask.protocol, mask, 2);
    std::memset(mask, 0, 2);
  }
  /// Returns a new option of Geneve's header; null: no such header is before it, or no room.
  vnic_option* option() {
    vnic_more& more = rule_.more;
    const bool has_room = more.option_count != VNIC_OPTIONS_MAX;
    if (!is_inside() || more.tunnel.kind != VNIC_TUNNEL_GENEVE || !has_room) return nullptr;
    return &more.options[more.option_count++];
  }
  /// A range without room, or whose ends are in the wrong order.
  bool has_failed() const { return has_failed_; }

 private:
  static bool has_bits(const void* value, const void* mask, std::size_t size) {
    const auto *const a = static_cast<const std::uint8_t*>(value),
                      *const b = static_cast<const std::uint8_t*>(mask);
    for (std::size_t i = 0; i < size; ++i) {
      if ((a[i] & b[i]) != 0) return true;
    }
    return false;
  }
  void add_range(std::size_t at, const void* spec, const void* mask, const void* last,
                 std::size_t size) {
    vnic_more& more = rule_.more;
    if (more.range_count == VNIC_RANGES_MAX) {
      has_failed_ = true;
      return;
    }
    rule_.has_more = 1;
    vnic_range& range = more.ranges[more.range_count++];
    range.is_inner = is_inside();
    range.at = static_cast<__u8>(at);
    range.size = static_cast<__u8>(size);
    for (std::size_t i = 0; i < size; ++i) {
      const auto byte = [i](const void* of) { return static_cast<const std::uint8_t*>(of)[i]; };
      range.mask[i] = byte(mask);
      range.low[i] = static_cast<__u8>(byte(spec) & byte(mask));
      range.high[i] = static_cast<__u8>(byte(last) & byte(mask));
    }
    has_failed_ |= std::memcmp(range.low, range.high, size) > 0;
  }

  vnic_rule& rule_;
  vnic_match* key_;
  vnic_match* mask_;
  std::ptrdiff_t distance_ = 0;
  bool has_failed_ = false;
};

template <typename Item>
bool is_empty(const Item& mask) {
  return std::ranges::all_of(std::as_bytes(std::span(&mask, 1)),
                             [](std::byte byte) { return byte == std::byte{}; });
}

/// An item's value, mask and end of a range. Without a value it only says that the header is there.
template <typename Item>
struct Values {
  Values(const rte_flow_item& item, Taker& to) {
    to.begin(reinterpret_cast<std::byte*>(&last) - reinterpret_cast<std::byte*>(&mask));
    if (item.spec == nullptr) return;
    spec = *static_cast<const Item*>(item.spec);
    mask = *static_cast<const Item*>(item.mask);
    if (item.last != nullptr) last = *static_cast<const Item*>(item.last);
  }
  /// Whether nothing is left that the rule does not say.
  bool are_taken() const { return is_empty(mask) && is_empty(last); }

  Item spec{};
  Item mask{};
  Item last{};
};

}  // namespace verbatim::offload::driver
