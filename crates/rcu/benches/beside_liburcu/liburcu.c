/*
 * liburcu's side of the comparison: the same work as `ours.rs`, for the flavour chosen by -DFLAVOUR_<NAME>.
 * Arguments: readers, writers, batch (old objects per grace period), milliseconds.
 * Prints: reads, writes, elapsed nanoseconds.
 */
#define _GNU_SOURCE
/* liburcu's read side inlined: its fastest form. */
#define URCU_INLINE_SMALL_FUNCTIONS
#define _LGPL_SOURCE
#define URCU_API_MAP
#if defined(FLAVOUR_QSBR)
#include <urcu/urcu-qsbr.h>
#elif defined(FLAVOUR_MEMB)
#include <urcu/urcu-memb.h>
#elif defined(FLAVOUR_MB)
#include <urcu/urcu-mb.h>
#elif defined(FLAVOUR_BP)
#include <urcu/urcu-bp.h>
#elif defined(FLAVOUR_SIGNAL)
#include <urcu/urcu-signal.h>
#else
#error "which flavour?"
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <urcu-pointer.h>

#define READS_PER_ANNOUNCEMENT 1024
#define CONTENTS 8

/* As long as a cache line with the allocator's header: neighbours share none. Only the contents are ever touched. */
struct object {
    unsigned long contents;
    unsigned long rest[6];
};

struct worker {
    pthread_t thread;
    unsigned long operations;
} __attribute__((aligned(128)));

static struct object *published __attribute__((aligned(128)));
static int running __attribute__((aligned(128))) = 1;
static pthread_barrier_t start;
static unsigned long batch;

static struct object *create(void) {
    struct object *object = malloc(sizeof *object);
    if (!object) abort();
    object->contents = CONTENTS;
    return object;
}

static void destroy(struct object *object) {
    /* Volatile, as in `ours.rs`: the compiler drops plain stores before a free, and with it the readers' check. */
    *(volatile unsigned long *)&object->contents = 0;
    free(object);
}

static void *read_on(void *argument) {
    struct worker *worker = argument;
    unsigned long reads = 0, wrong = 0;
    rcu_register_thread();
    rcu_thread_offline();
    pthread_barrier_wait(&start);
    rcu_thread_online();
    while (uatomic_read(&running)) {
        for (int i = 0; i < READS_PER_ANNOUNCEMENT; i++) {
            rcu_read_lock();
            wrong += rcu_dereference(published)->contents != CONTENTS;
            rcu_read_unlock();
        }
        rcu_quiescent_state();
        reads += READS_PER_ANNOUNCEMENT;
    }
    rcu_unregister_thread();
    if (wrong) abort();
    worker->operations = reads;
    return NULL;
}

static void *write_on(void *argument) {
    struct worker *worker = argument;
    struct object **old = malloc(batch * sizeof *old);
    unsigned long writes = 0, count = 0;
    pthread_barrier_wait(&start);
    while (uatomic_read(&running)) {
        old[count++] = rcu_xchg_pointer(&published, create());
        writes++;
        if (count == batch) {
            synchronize_rcu();
            while (count) destroy(old[--count]);
        }
    }
    synchronize_rcu();
    while (count) destroy(old[--count]);
    free(old);
    worker->operations = writes;
    return NULL;
}

static unsigned long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    int readers = atoi(arguments[1]), writers = atoi(arguments[2]);
    batch = strtoul(arguments[3], NULL, 10);
    unsigned long long duration_ns = strtoull(arguments[4], NULL, 10) * 1000000ULL;
    struct timespec pause = {duration_ns / 1000000000ULL, duration_ns % 1000000000ULL};
    struct worker *workers = aligned_alloc(128, (readers + writers) * sizeof *workers);
    unsigned long reads = 0, writes = 0;

    published = create();
    pthread_barrier_init(&start, NULL, readers + writers + 1);
    for (int i = 0; i < readers + writers; i++)
        pthread_create(&workers[i].thread, NULL, i < readers ? read_on : write_on, &workers[i]);
    pthread_barrier_wait(&start);
    unsigned long long began_ns = now_ns();
    nanosleep(&pause, NULL);
    uatomic_set(&running, 0);
    unsigned long long elapsed_ns = now_ns() - began_ns;
    for (int i = 0; i < readers + writers; i++) {
        pthread_join(workers[i].thread, NULL);
        *(i < readers ? &reads : &writes) += workers[i].operations;
    }
    printf("%lu %lu %llu\n", reads, writes, elapsed_ns);
    return 0;
}
