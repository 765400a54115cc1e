#include "dropin/rdmacm/locks.h"

#include <cerrno>

#include "dropin/ibverbs/services.h"

int verbatim_take_lock(const char* name) {
  const VerbatimServices* const services = verbatim_services(verbatim::dropin::kServicesVersion);
  const int taken = services != nullptr ? services->take_lock(name) : -ENOSYS;
  if (taken >= 0) return taken;
  errno = -taken;
  return -1;
}
