/* An open loop of writes: one thread sends a SET at fixed times, whatever becomes of those before, and notes for each
 * the time from the moment at which it was due to its reply.
 *
 * It is as lean as it can be, because it shares a small machine with the server it measures: what it delays itself is
 * part of its figures, and told apart by `late`: the time from the moment at which a request was due to the one at
 * which it was written. It sends until it is told to end by SIGTERM, and sleeps between two requests.
 *
 *     open_loop --port N --connections 50 --rate 20000 --keys 100000 --value-bytes 1000
 *
 * Keys are key:0 to key:KEYS-1, as DEBUG POPULATE names them. Output: a line for each request with three numbers, when
 * it was due in Unix nanoseconds, its latency and by how much it was late, both in microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"

enum { EVENTS_MAX = 256, REPLY_BYTES = 5, READ_BYTES = 64 << 10, HEAD_BYTES_MAX = 128 };
/* Requests of a connection that wait for their replies, a power of two. */
enum { WAITING_MAX = 1 << 16 };
/* Requests that are noted: ten minutes at the usual rate. */
static const size_t NOTED_MAX = 12000000;

struct note {
    uint64_t due_ns;
    uint32_t latency_us, late_us;
};

struct connection {
    int socket;
    char *out;
    size_t out_bytes, sent_bytes, out_capacity;
    /* positions in `notes` of what was sent and not answered */
    uint32_t *waiting;
    uint32_t first, end;
    size_t partial_bytes;
};

static struct {
    long port, connections, rate, keys, value_bytes;
    uint64_t seed;
} option = {.connections = 50, .rate = 20000, .keys = 100000, .value_bytes = 1000, .seed = 1};

static struct note *notes;
static size_t note_count;
static int poller;
static volatile sig_atomic_t stopping;

static void stop(int signal) {
    (void)signal;
    stopping = 1;
}

static void flush(struct connection *c) {
    while (c->sent_bytes < c->out_bytes) {
        ssize_t sent = write(c->socket, c->out + c->sent_bytes, c->out_bytes - c->sent_bytes);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent <= 0) fail("write");
        c->sent_bytes += sent;
    }
    int is_done = c->sent_bytes == c->out_bytes;
    if (is_done) c->sent_bytes = c->out_bytes = 0;
    struct epoll_event event = {.events = EPOLLIN | (is_done ? 0 : EPOLLOUT), .data.ptr = c};
    if (!is_done) epoll_ctl(poller, EPOLL_CTL_MOD, c->socket, &event);
}

static void send_request(struct connection *c, uint64_t due_ns) {
    size_t wanted = c->out_bytes + HEAD_BYTES_MAX + option.value_bytes + 2;
    if (wanted > c->out_capacity) {
        c->out_capacity = 2 * wanted;
        c->out = realloc(c->out, c->out_capacity);
        if (!c->out) fail("realloc");
    }
    if (c->end - c->first == WAITING_MAX || note_count == NOTED_MAX) {
        fprintf(stderr, "the server is further behind than can be noted\n");
        exit(1);
    }
    char key[32];
    int key_bytes = sprintf(key, "key:%lu", (unsigned long)(next_random(&option.seed) % option.keys));
    char *at = c->out + c->out_bytes;
    at += sprintf(at, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%ld\r\n", key_bytes, key, option.value_bytes);
    memset(at, 'x', option.value_bytes);
    memcpy(at + option.value_bytes, "\r\n", 2);
    c->out_bytes = at + option.value_bytes + 2 - c->out;
    uint64_t late_ns = now_ns(CLOCK_MONOTONIC) - due_ns;
    notes[note_count] = (struct note){.due_ns = due_ns, .late_us = late_ns / 1000};
    c->waiting[c->end++ % WAITING_MAX] = note_count++;
    flush(c);
}

static void receive(struct connection *c) {
    static char input[READ_BYTES];
    ssize_t length = read(c->socket, input, sizeof input);
    if (length < 0 && errno == EAGAIN) return;
    if (length <= 0) {
        fprintf(stderr, "the server closed a connection\n");
        exit(1);
    }
    if (c->partial_bytes == 0 && input[0] != '+') {
        fprintf(stderr, "the server answered %.*s\n", (int)strcspn(input, "\r"), input);
        exit(1);
    }
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    c->partial_bytes += length;
    for (; c->partial_bytes >= REPLY_BYTES; c->partial_bytes -= REPLY_BYTES) {
        struct note *note = &notes[c->waiting[c->first++ % WAITING_MAX]];
        note->latency_us = (now - note->due_ns) / 1000;
    }
}

static void connect_all(struct connection *all) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(option.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (long index = 0; index < option.connections; index++) {
        struct connection *c = &all[index];
        int on = 1;
        c->socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->socket, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
        fcntl(c->socket, F_SETFL, O_NONBLOCK);
        setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->waiting = malloc(WAITING_MAX * sizeof *c->waiting);
        if (!c->waiting) fail("malloc");
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, c->socket, &event);
    }
}

static void parse(int count, char **arguments) {
    for (int index = 1; index < count; index++) {
        const char *name = arguments[index];
        const char *text = index + 1 < count ? arguments[++index] : "";
        if (strcmp(name, "--port") == 0) option.port = atol(text);
        else if (strcmp(name, "--connections") == 0) option.connections = atol(text);
        else if (strcmp(name, "--rate") == 0) option.rate = atol(text);
        else if (strcmp(name, "--keys") == 0) option.keys = atol(text);
        else if (strcmp(name, "--value-bytes") == 0) option.value_bytes = atol(text);
        else {
            fprintf(stderr, "unknown option %s\n", name);
            exit(2);
        }
    }
}

static long unanswered(const struct connection *all) {
    long sum = 0;
    for (long index = 0; index < option.connections; index++) sum += all[index].end - all[index].first;
    return sum;
}

int main(int count, char **arguments) {
    parse(count, arguments);
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);
    notes = malloc(NOTED_MAX * sizeof *notes);
    struct connection *all = calloc(option.connections, sizeof *all);
    if (!notes || !all) fail("malloc");
    poller = epoll_create1(0);
    connect_all(all);

    uint64_t interval_ns = 1000000000u / option.rate, due = now_ns(CLOCK_MONOTONIC);
    struct epoll_event events[EVENTS_MAX];
    for (long turn = 0; !stopping || unanswered(all) > 0;) {
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        for (; !stopping && due <= now; due += interval_ns) send_request(&all[turn++ % option.connections], due);
        uint64_t wait_ns = stopping ? 1000000 : due > now ? due - now : 0;
        struct timespec timeout = {.tv_nsec = wait_ns};
        int ready = epoll_pwait2(poller, events, EVENTS_MAX, &timeout, NULL);
        for (int index = 0; index < ready; index++) {
            struct connection *c = events[index].data.ptr;
            if (events[index].events & EPOLLOUT) {
                struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
                epoll_ctl(poller, EPOLL_CTL_MOD, c->socket, &event);
                flush(c);
            }
            if (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        }
    }
    uint64_t offset_ns = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC);
    for (size_t index = 0; index < note_count; index++) {
        struct note *note = &notes[index];
        printf("%lu %u %u\n", note->due_ns + offset_ns, note->latency_us, note->late_us);
    }
    return 0;
}
