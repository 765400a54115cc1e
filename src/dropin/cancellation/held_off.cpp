/// Functions of the C library that wait or write inside: cancellation is held off meanwhile.
#include <cstdarg>
#include <cstdio>

#include <netdb.h>
#include <pthread.h>

namespace {

class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

template <typename Function, typename... Arguments>
auto held_off(Function function, Arguments... arguments) {
  const NoCancellation held;
  return function(arguments...);
}

}  // namespace

extern "C" {

// The linker's names for the functions that are replaced.
decltype(pthread_cond_wait) __real_pthread_cond_wait;
decltype(pthread_cond_clockwait) __real_pthread_cond_clockwait;
decltype(pthread_join) __real_pthread_join;
decltype(getaddrinfo) __real_getaddrinfo;
decltype(fopen) __real_fopen, __real_fopen64;
decltype(fclose) __real_fclose;
decltype(fflush) __real_fflush;
decltype(fputc) __real_fputc;
decltype(fputs) __real_fputs;
decltype(fwrite) __real_fwrite;
decltype(vfprintf) __real_vfprintf;
decltype(getdelim) __real___getdelim;

int __wrap_pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return held_off(__real_pthread_cond_wait, condition, mutex);
}
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const timespec* until) {
  return held_off(__real_pthread_cond_clockwait, condition, mutex, clock, until);
}
int __wrap_pthread_join(pthread_t thread, void** result) {
  return held_off(__real_pthread_join, thread, result);
}
int __wrap_getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                       addrinfo** found) {
  return held_off(__real_getaddrinfo, node, service, hints, found);
}
std::FILE* __wrap_fopen(const char* path, const char* mode) {
  return held_off(__real_fopen, path, mode);
}
std::FILE* __wrap_fopen64(const char* path, const char* mode) {
  return held_off(__real_fopen64, path, mode);
}
int __wrap_fclose(std::FILE* file) { return held_off(__real_fclose, file); }
int __wrap_fflush(std::FILE* file) { return held_off(__real_fflush, file); }
int __wrap_fputc(int character, std::FILE* file) { return held_off(__real_fputc, character, file); }
int __wrap_fputs(const char* text, std::FILE* file) { return held_off(__real_fputs, text, file); }
std::size_t __wrap_fwrite(const void* from, std::size_t size, std::size_t count, std::FILE* file) {
  return held_off(__real_fwrite, from, size, count, file);
}
ssize_t __wrap___getdelim(char** line, std::size_t* size, int end, std::FILE* file) {
  return held_off(__real___getdelim, line, size, end, file);
}
int __wrap_vfprintf(std::FILE* file, const char* format, std::va_list list) {
  const NoCancellation held;
  return __real_vfprintf(file, format, list);
}
int __wrap_fprintf(std::FILE* file, const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  const int written = vfprintf(file, format, list);
  va_end(list);
  return written;
}
int __wrap___isoc99_fscanf(std::FILE* file, const char* format, ...) {
  std::va_list list;
  va_start(list, format);
  const NoCancellation held;
  const int taken = vfscanf(file, format, list);
  va_end(list);
  return taken;
}

}  // extern "C"
