#pragma once

/// What librspreload needs of our librdmacm beyond rsocket(7): a private symbol.
extern "C" {

/// dup3(2), where one of the numbers, or both, are rsockets: `number` becomes another number of
/// what `from` is, at once, and stands no more for what it stood for. An rsocket ends with its last
/// number. Answers with `number`, or with -1 and errno as dup3(2).
__attribute__((visibility("default"))) int verbatim_rdup3(int from, int number, int flags);

}  // extern "C"
