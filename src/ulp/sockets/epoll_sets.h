#pragma once

#include <memory>

#include "ulp/sockets/epoll_set.h"

/// The epoll sets of this process that have sources, by their descriptors. A forked child has none:
/// sources cannot be inherited.
namespace verbatim::ulp::sockets {

/// Null if this descriptor is no set, or one without sources.
std::shared_ptr<EpollSet> find_set(int program);
/// Returns null and sets errno.
std::shared_ptr<EpollSet> find_or_make_set(int program);
/// The program has closed a descriptor, or it has become another file.
void drop_set(int program);
/// `number` is a duplicate of the set `program`.
void duplicate_set(int program, int number);
/// For each set: `EpollSet::close`, `forget`.
void close_in_sets(int fd);
void forget_in_sets(const Source& source);

}  // namespace verbatim::ulp::sockets
