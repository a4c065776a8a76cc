/* What shim.c and foreign.c have in common. */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
/* Some headers are too old to have this. */
#define MFD_NOEXEC_SEAL_FLAG 8u

/* Closes a descriptor of another process, on a thread if that may take long: 0, or -ENOMEM if it stays open. */
EXPORT int poolpass_close_aside(int fd);
