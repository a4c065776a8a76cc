// Prints where a program crashes: loaded into it by LD_PRELOAD. gcc -shared -fPIC -O1 -o crash_backtrace.so
// crash_backtrace.c. Each report begins with "CRASH" and goes to the file that CRASH_REPORT names, or to stderr.
#define _GNU_SOURCE
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
static char path[512];

/* Prints the line of /proc/self/maps that has the address. */
static void print_mapping(int out, unsigned long address) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end;
    if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && begin <= address && address < end) dprintf(out, "  in %s", line);
  }
  if (maps != NULL) fclose(maps);
}

static void report(int number, siginfo_t *info, void *context) {
  int out = path[0] == 0 ? STDERR_FILENO : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) out = STDERR_FILENO;
  char thread[16] = "";
  prctl(PR_GET_NAME, thread);
  unsigned long at = 0;
#ifdef __x86_64__
  at = (unsigned long)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#endif
  dprintf(out, "CRASH signal %d, code %d, address %p, instruction %#lx, process %d, thread %ld \"%s\"\n", number,
          info->si_code, info->si_addr, at, getpid(), syscall(SYS_gettid), thread);
  print_mapping(out, at);
  void *frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), out);
  dprintf(out, "\n");
  signal(number, SIG_DFL);
  raise(number);
}

__attribute__((constructor)) static void install(void) {
  const char *chosen = getenv("CRASH_REPORT");
  if (chosen != NULL) snprintf(path, sizeof path, "%s", chosen);
  void *frame;
  backtrace(&frame, 1); /* loads libgcc now, not in a handler */
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
  for (unsigned i = 0; i < sizeof crashes / sizeof crashes[0]; i++) sigaction(crashes[i], &action, NULL);
}
