#pragma once

#include <cstddef>
#include <cstdio>

#include <sys/types.h>

/// Descriptors of files that a daemon serves: each is a connection to it, which may be duplicated,
/// inherited or passed on. What is written is a message, and its answer is what write(2) returns.
/// No allocation, no lock; errno changes as the call says.
namespace verbatim::view {

/// Who serves: a node's storage target (tree.h), or the keeper of its logins (initiator.h).
enum class Daemon : unsigned char { target, initiator };

/// What a descriptor is: a hint for low numbers; the socket's name decides.
enum class Opened : unsigned char { nothing, attribute, character_device, block_device };

struct Reply {
  int code;
  std::size_t size = 0;  // Of the text.
  char text[8192];
  Reply();  // EIO.
};

/// The C library's own: that of its name would come back to us.
int call_close(int fd);

/// The connection, or -1 and errno: what the daemon says; ENOENT: none runs.
int dial_and_ask(Daemon daemon, char request, const char* path, const char* second, Reply& reply);
/// Descriptor of a file that the daemon serves, as open(2), or -1 and errno.
int open_at(Daemon daemon, const char* path, int flags, Opened kind);

void set_kind(int fd, Opened kind);
/// What `open_at` has made, or a copy of it, is.
Opened kind_of(int fd);
inline bool is_writer(int fd) { return kind_of(fd) != Opened::nothing; }
/// The descriptor may be a daemon's file from the program's start on.
void note_inherited(int fd);
/// `to` is now a copy of `from`, or closed (`from` is -1).
void note_copy(int from, int to);

ssize_t write_attribute(int fd, const void* bytes, std::size_t size);
FILE* stream_to_write(int fd);

}  // namespace verbatim::view
