// Moves the wall clock of the process that it is loaded into, by as many
// milliseconds as the first eight bytes of the file HOLDFAST_TEST_CLOCK say at
// the time. The monotonic clock, by which a server waits, is left alone.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *ahead;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("HOLDFAST_TEST_CLOCK");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) abort();
  ahead = page;
  close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts) {
  int failed = (int)syscall(SYS_clock_gettime, id, ts);
  if (failed == 0 && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    long long ms = *ahead;
    ts->tv_sec += ms / 1000;
    ts->tv_nsec += ms % 1000 * 1000000;
    if (ts->tv_nsec >= 1000000000) ts->tv_sec++, ts->tv_nsec -= 1000000000;
    if (ts->tv_nsec < 0) ts->tv_sec--, ts->tv_nsec += 1000000000;
  }
  return failed;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  struct timespec ts;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
  tv->tv_sec = ts.tv_sec;
  tv->tv_usec = ts.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *t) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  if (t) *t = ts.tv_sec;
  return ts.tv_sec;
}
