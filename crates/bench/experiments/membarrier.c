/*
 * Preloaded by scripts/rcu-run: a kernel whose sys_membarrier is not what it is, for any library that makes the call
 * through syscall(2). MEMBARRIER=refused: there is none. MEMBARRIER=global: the expedited command waits for a grace
 * period of the kernel's own RCU, as the non-expedited one does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

long syscall(long number, ...) {
    static long (*next)(long, ...);
    long argument[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) argument[i] = va_arg(list, long);
    va_end(list);
    if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    const char *mode = number == SYS_membarrier ? getenv("MEMBARRIER") : NULL;
    if (mode && !strcmp(mode, "refused")) {
        errno = ENOSYS;
        return -1;
    }
    if (mode && !strcmp(mode, "global") && (int)argument[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        argument[0] = MEMBARRIER_CMD_GLOBAL;
    return next(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
