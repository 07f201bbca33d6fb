/* The load of the budgets: one thread, many connections, pipelines of SET and GET in a fixed ratio.
 *
 * It is as lean as it can be, because it shares a small machine with the server it measures: requests are laid out in
 * one buffer per connection, replies are skipped and not stored. It sends a batch of `pipeline` requests on each
 * connection and the next one when all replies are there. It polls and never sleeps: on two hardware threads of one
 * core a load that sleeps while a slow server works would lend that server the whole core, and a fast server half of
 * it. It is no general load generator: `tidemill bench` is.
 *
 *     load --port N --connections 50 --pipeline 1 --seconds 3 --keys 100000
 *          --value-min 32 --value-max 32 --gets-per-set 10 [--fill] [--seed 1]
 *
 * With --fill it sets each key once instead. It prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10, EVENTS_MAX = 1024, LINE_BYTES_MAX = 256, BUCKETS = 64 * 32 };

struct connection {
    int socket;
    char *request;
    size_t request_bytes, request_capacity, sent_bytes;
    int outstanding;
    /* bytes of a bulk string, its line end included, that are still to be skipped */
    size_t skip_bytes;
    char line[LINE_BYTES_MAX];
    size_t line_bytes;
    uint64_t started_ns;
    int wants_write;
};

static struct {
    int port, connections, pipeline, gets_per_set, fill;
    double seconds;
    long keys, value_min, value_max;
    uint64_t seed;
} option = {.connections = 50, .pipeline = 1, .seconds = 3, .keys = 100000, .value_min = 32, .value_max = 32, .gets_per_set = 10, .seed = 1};

static uint64_t operations, hits, misses, errors, bytes_received, sequence, filled;
static uint64_t histogram[BUCKETS];
static char *value, input[READ_BYTES];
static int poller, stopping;
static long busy;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

/* splitmix64: one multiplication chain per number, and any seed will do */
static uint64_t next_random(void) {
    uint64_t z = (option.seed += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Sixteen buckets for each power of two: 6 % resolution over all of 64 bits. */
static void record(uint64_t ns) {
    int shift = ns < 32 ? 0 : 59 - __builtin_clzll(ns); /* ns >> shift is 16..31 */
    histogram[shift * 32 + (ns >> shift)]++;
}

static double percentile_us(double share) {
    uint64_t total = 0, seen = 0;
    for (int index = 0; index < BUCKETS; index++) total += histogram[index];
    for (int index = 0; index < BUCKETS; index++) {
        seen += histogram[index];
        if (total > 0 && seen >= share * total) {
            uint64_t low = (uint64_t)(index % 32) << index / 32;
            return low / 1000.0;
        }
    }
    return 0;
}

static void reserve(struct connection *c, size_t bytes) {
    if (c->request_bytes + bytes <= c->request_capacity) return;
    c->request_capacity = (c->request_bytes + bytes) * 2;
    c->request = realloc(c->request, c->request_capacity);
    if (!c->request) fail("realloc");
}

static void add_set(struct connection *c, unsigned long key) {
    size_t bytes = option.value_min;
    if (option.value_max > option.value_min) bytes += next_random() % (option.value_max - option.value_min + 1);
    reserve(c, bytes + 96);
    c->request_bytes += sprintf(c->request + c->request_bytes, "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012lu\r\n$%zu\r\n", key, bytes);
    memcpy(c->request + c->request_bytes, value, bytes);
    memcpy(c->request + c->request_bytes + bytes, "\r\n", 2);
    c->request_bytes += bytes + 2;
}

static void add_get(struct connection *c, unsigned long key) {
    static const char head[] = "*2\r\n$3\r\nGET\r\n$16\r\nkey:";
    reserve(c, 64);
    char *out = c->request + c->request_bytes;
    memcpy(out, head, sizeof head - 1);
    out += sizeof head - 1;
    for (int digit = 11; digit >= 0; digit--, key /= 10) out[digit] = '0' + key % 10;
    memcpy(out + 12, "\r\n", 2);
    c->request_bytes += sizeof head - 1 + 14;
}

static void flush(struct connection *c) {
    while (c->sent_bytes < c->request_bytes) {
        ssize_t sent = write(c->socket, c->request + c->sent_bytes, c->request_bytes - c->sent_bytes);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent <= 0) fail("write");
        c->sent_bytes += sent;
    }
    int wants_write = c->sent_bytes < c->request_bytes;
    if (wants_write == c->wants_write) return;
    c->wants_write = wants_write;
    struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->socket, &event);
}

static void start_batch(struct connection *c) {
    c->request_bytes = c->sent_bytes = 0;
    for (int index = 0; index < option.pipeline; index++) {
        if (option.fill) {
            if (filled == (uint64_t)option.keys) break;
            add_set(c, filled++);
        } else if (sequence++ % (option.gets_per_set + 1) == 0) {
            add_set(c, next_random() % option.keys);
        } else {
            add_get(c, next_random() % option.keys);
        }
        c->outstanding++;
    }
    if (c->outstanding == 0) return;
    busy++;
    c->started_ns = now_ns();
    flush(c);
}

static void finish_reply(struct connection *c) {
    operations++;
    if (--c->outstanding > 0) return;
    record(now_ns() - c->started_ns);
    busy--;
    if (!stopping) start_batch(c);
}

static void read_line(struct connection *c, const char *line) {
    if (line[0] == '$' && line[1] != '-') {
        hits++;
        c->skip_bytes = strtoul(line + 1, NULL, 10) + 2;
        return;
    }
    if (line[0] == '$' || line[0] == '_') misses++;
    if (line[0] == '-' && errors++ == 0) fprintf(stderr, "error reply: %.*s\n", (int)strcspn(line, "\r"), line);
    finish_reply(c);
}

static void consume(struct connection *c, const char *bytes, size_t length) {
    while (length > 0) {
        if (c->skip_bytes > 0) {
            size_t skipped = c->skip_bytes < length ? c->skip_bytes : length;
            bytes += skipped;
            length -= skipped;
            c->skip_bytes -= skipped;
            if (c->skip_bytes == 0) finish_reply(c);
            continue;
        }
        const char *end = memchr(bytes, '\n', length);
        size_t part = end ? (size_t)(end - bytes) + 1 : length;
        if (end && c->line_bytes == 0) {
            read_line(c, bytes);
        } else {
            if (c->line_bytes + part >= LINE_BYTES_MAX) {
                fprintf(stderr, "a reply line is too long\n");
                exit(1);
            }
            memcpy(c->line + c->line_bytes, bytes, part);
            c->line_bytes += part;
            if (end) {
                c->line_bytes = 0;
                read_line(c, c->line);
            }
        }
        bytes += part;
        length -= part;
    }
}

static void receive(struct connection *c) {
    ssize_t length = read(c->socket, input, sizeof input);
    if (length < 0 && errno == EAGAIN) return;
    if (length <= 0) {
        fprintf(stderr, "the server closed a connection\n");
        exit(1);
    }
    bytes_received += length;
    consume(c, input, length);
}

static void connect_all(struct connection *all) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(option.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int index = 0; index < option.connections; index++) {
        struct connection *c = &all[index];
        int on = 1;
        c->socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->socket, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
        fcntl(c->socket, F_SETFL, O_NONBLOCK);
        setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, c->socket, &event);
    }
}

static void parse(int count, char **arguments) {
    for (int index = 1; index < count; index++) {
        const char *name = arguments[index];
        if (strcmp(name, "--fill") == 0) {
            option.fill = 1;
            continue;
        }
        const char *text = index + 1 < count ? arguments[++index] : "";
        if (strcmp(name, "--port") == 0) option.port = atoi(text);
        else if (strcmp(name, "--connections") == 0) option.connections = atoi(text);
        else if (strcmp(name, "--pipeline") == 0) option.pipeline = atoi(text);
        else if (strcmp(name, "--seconds") == 0) option.seconds = atof(text);
        else if (strcmp(name, "--keys") == 0) option.keys = atol(text);
        else if (strcmp(name, "--value-min") == 0) option.value_min = atol(text);
        else if (strcmp(name, "--value-max") == 0) option.value_max = atol(text);
        else if (strcmp(name, "--gets-per-set") == 0) option.gets_per_set = atoi(text);
        else if (strcmp(name, "--seed") == 0) option.seed = strtoull(text, NULL, 10);
        else {
            fprintf(stderr, "unknown option %s\n", name);
            exit(2);
        }
    }
}

int main(int count, char **arguments) {
    parse(count, arguments);
    value = malloc(option.value_max + 1);
    memset(value, 'x', option.value_max);
    poller = epoll_create1(0);
    struct connection *all = calloc(option.connections, sizeof *all);
    connect_all(all);

    uint64_t start = now_ns(), end = start + (uint64_t)(option.seconds * 1e9);
    for (int index = 0; index < option.connections; index++) start_batch(&all[index]);
    struct epoll_event events[EVENTS_MAX];
    while (busy > 0) {
        int ready = epoll_wait(poller, events, EVENTS_MAX, 0);
        for (int index = 0; index < ready; index++) {
            struct connection *c = events[index].data.ptr;
            if (events[index].events & EPOLLOUT) flush(c);
            if (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        }
        if (!option.fill && now_ns() >= end) stopping = 1;
    }
    double elapsed = (now_ns() - start) / 1e9;
    printf("{\"operations\": %lu, \"seconds\": %.6f, \"hits\": %lu, \"misses\": %lu, \"errors\": %lu, \"bytes_received\": %lu, "
           "\"batch_p50_us\": %.1f, \"batch_p99_us\": %.1f, \"batch_p999_us\": %.1f}\n",
           operations, elapsed, hits, misses, errors, bytes_received, percentile_us(.5), percentile_us(.99), percentile_us(.999));
    return 0;
}
