#pragma once

/// A process that has inherited established streams. It cannot use the parent's queue pairs: with
/// its first use of a stream it gets the stream's shadow from its owner, which all of the number's
/// processes have then.
namespace verbatim::rspreload {

/// Makes an inherited number one of the stream's shadow. If the owner has gone, it is one of a
/// connection that has been reset.
void adopt(int fd);
/// Before a call that needs more of the number than reading, writing or waiting, which settle it.
void adopt_if_inherited(int fd);
/// All of them, before the process can ask no more.
void adopt_all();

/// The number is closed, or becomes another file.
void disown(int fd);

}  // namespace verbatim::rspreload
