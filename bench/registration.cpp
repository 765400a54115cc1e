// bench_registration [MIB]: milliseconds that registering touched memory takes, and its end.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "tests/programs/endpoint.h"

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const std::size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  const std::size_t bytes = mib << 20;
  const endpoint::Device device(1);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  endpoint::check(memory != MAP_FAILED, "mmap");
  std::memset(memory, 1, bytes);
  const auto begin = Clock::now();
  ibv_mr* const region = ibv_reg_mr(device.pd, memory, bytes, endpoint::kAccess);
  const auto registered = Clock::now();
  endpoint::check(region != nullptr, "ibv_reg_mr");
  const auto before = Clock::now();
  endpoint::check(ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
  const auto end = Clock::now();
  const auto ms = [](auto span) { return std::chrono::duration<double, std::milli>(span).count(); };
  std::printf("%zu MiB: register %.2f ms, deregister %.2f ms\n", mib, ms(registered - begin),
              ms(end - before));
}
