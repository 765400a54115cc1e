#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/types.h"
#include "wire/mad/management_packet.h"

/// libibumad for tests, in the test's program in place of the library: it keeps what is sent, and
/// delivers what the test says.
namespace verbatim::ulp::rdma {

class FakeUmad {
 public:
  using Mad = std::array<std::byte, wire::kMadBytes>;
  struct Sent {
    int agent = 0;
    int timeout_ms = 0;
    std::uint16_t lid = 0;
    std::uint32_t qkey = 0;
    Mad mad{};
  };
  struct Coming {
    int agent = 0;
    int status = 0;
    std::size_t length = wire::kMadBytes;
    Mad mad{};
  };
  FakeUmad() { current() = this; }
  ~FakeUmad() { current() = nullptr; }
  FakeUmad(const FakeUmad&) = delete;
  FakeUmad& operator=(const FakeUmad&) = delete;
  static FakeUmad& get() { return *current(); }

  std::vector<Sent> sent;
  std::deque<Coming> coming;
  std::vector<int> classes;  // Of the agents, by their numbers.
  std::string link_layer = "InfiniBand";
  std::uint16_t lid = 5, manager = 1;
  std::vector<std::uint16_t> pkeys{0x9001, 0x7fff};
  int refuses_class = 0;
  bool is_open = false;

 private:
  static FakeUmad*& current() {
    static FakeUmad* one = nullptr;
    return one;
  }
};

}  // namespace verbatim::ulp::rdma
