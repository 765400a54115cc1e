/// The functions of fmt, compiled once: Debian has them as a shared library only, which the
/// drop-ins cannot ask of every program. Header-only, each file would compile them again (four
/// seconds of processor time each). `fmt_templates.cpp` has the instances of fmt's templates.
#include <fmt/format-inl.h>
