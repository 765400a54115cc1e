#include "fabric/data/image/clock.h"

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>

#include <dlfcn.h>

namespace verbatim::fabric {
namespace {

using GetTime = int (*)(clockid_t, timespec*);

/// Null if the process has no vDSO. Its name depends on the processor.
GetTime vdso_clock() {
  void* const vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  for (const char* name : {"__vdso_clock_gettime", "__kernel_clock_gettime"}) {
    void* const found = vdso == nullptr ? nullptr : dlsym(vdso, name);
    if (found != nullptr) return reinterpret_cast<GetTime>(found);
  }
  return nullptr;
}

/// What the process's time namespace adds to the monotonic clock; kernels before 5.6 have none.
std::int64_t namespace_offset() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/timens_offsets", "re"),
                                                   std::fclose);
  long long seconds = 0;
  long long nanoseconds = 0;
  if (!file || std::fscanf(file.get(), "monotonic %lld %lld", &seconds, &nanoseconds) != 2)
    return 0;
  return seconds * static_cast<std::int64_t>(kSecond) + nanoseconds;
}

struct Clock {
  GetTime get = vdso_clock();
  std::int64_t offset = namespace_offset();

  TimeNs now() const {
    timespec read{};
    if (get == nullptr || get(CLOCK_MONOTONIC, &read) != 0) clock_gettime(CLOCK_MONOTONIC, &read);
    return static_cast<TimeNs>(read.tv_sec) * kSecond + static_cast<TimeNs>(read.tv_nsec) -
           static_cast<TimeNs>(offset);
  }
};

const Clock& clock() {
  static const Clock instance;
  return instance;
}

}  // namespace

TimeNs fabric_now() { return clock().now(); }

bool has_foreign_clock() {
  static const bool is_foreign = [] {
    const TimeNs before = monotonic_now();
    const TimeNs now = fabric_now();
    return now < before || now > monotonic_now();
  }();
  return is_foreign;
}

}  // namespace verbatim::fabric
