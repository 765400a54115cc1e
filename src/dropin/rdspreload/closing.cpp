#include "dropin/rdspreload/closing.h"

#include "dropin/rdspreload/fd_table.h"
#include "dropin/rdspreload/granted_memory.h"
#include "dropin/rdspreload/sockets.h"
#include "dropin/rdspreload/straight.h"

namespace verbatim::rdspreload {

void forget(int fd) {
  const std::uint8_t known = known_of(fd);
  if (known == 0) return;
  set_known(fd, 0);
  drop_socket(fd);
  if ((known & kIsHidden) != 0) forget_neighbour(fd);
  if ((known & kIsRds) != 0 && !has_any()) end_all_grants();
}

void forget(int first, int last) {
  for (int fd = first < 0 ? 0 : first; fd <= last && fd < kNumbers; ++fd) forget(fd);
}

}  // namespace verbatim::rdspreload
