/* Declarations that the sources of the shim share. */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
/* Some headers are too old to define these. */
#define MFD_NOEXEC_SEAL_FLAG 8u
#define SYS_PIDFD_OPEN 434

/* Closes another process's descriptor, on a thread if that may block. Returns 0, or -ENOMEM if it stays open. */
EXPORT int poolpass_close_aside(int fd);
/* Sends bytes, and descriptors with the first of them. Returns the number of bytes, or -errno. */
EXPORT int poolpass_send(int fd, const void *bytes, uint64_t length, const int *fds, uint32_t count);
/* Starts a thread that receives no signals, which are for the process's own threads. Returns 1 if it has started. */
int start_thread(void *(*function)(void *), void *argument);
