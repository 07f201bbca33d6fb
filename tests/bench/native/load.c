/* The load of the budgets: one thread, many connections, pipelines of SET and GET in a fixed ratio.
 *
 * It is as lean as it can be, because it shares a small machine with the server it measures, and a server that waits for
 * its load sleeps and wakes for each batch: requests with small values are laid out before the clock starts, more of them
 * than there are keys in the usual run, and sent from there in turn; replies are skipped and not stored. It sends a batch of `pipeline` requests on each
 * connection and the next one when all replies are there. It polls and never sleeps: on two hardware threads of one
 * core a load that sleeps while a slow server works would lend that server the whole core, and a fast server half of
 * it. It is no general load generator: `tidemill bench` is.
 *
 *     load --port N --connections 50 --pipeline 1 --seconds 3 --keys 100000
 *          --value-min 32 --value-max 32 --gets-per-set 10 [--fill] [--seed 1]
 *
 * With --fill it sets each key once instead; with --requests FILE it sends the requests of a file, over and over. With
 * --sleep it sleeps while it waits, so that others can use its CPU. It prints one JSON object.
 *
 * With --prelude FILE each connection sends the bytes of a file first, and with --listeners N --listen FILE so many more
 * connections do and then only read. A batch is over then when each of its requests has brought each listener one
 * array: messages of a channel, in RESP2, with no '*' in a payload. Both files end with the request PING prelude-end,
 * whose reply tells that all before it was answered.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"

enum { READ_BYTES = 256 << 10, EVENTS_MAX = 1024, LINE_BYTES_MAX = 256, BUCKETS = 64 * 32 };
/* Reply to the last request of a prelude. */
static const char PRELUDE_END[] = "$11\r\nprelude-end\r\n";
/* Requests that are laid out beforehand, and the largest values for which they are. */
enum { PREPARED_REQUESTS = 200000, PREPARED_VALUE_BYTES_MAX = 256 };

struct buffer {
    char *bytes;
    size_t length, capacity;
};

struct connection {
    int socket;
    /* what it sends now: its own buffer, or a batch that was laid out beforehand */
    const char *request;
    size_t request_bytes, sent_bytes;
    struct buffer own;
    int outstanding;
    /* bytes of a bulk string, its line end included, that are still to be skipped */
    size_t skip_bytes;
    /* elements of an array, or of arrays within it, that are still to come; 0 between two replies */
    size_t missing_elements;
    char line[LINE_BYTES_MAX];
    size_t line_bytes;
    uint64_t started_ns;
    int wants_write;
    int is_listener;
};

static struct {
    int port, connections, pipeline, gets_per_set, fill, sleep, listeners;
    const char *requests, *prelude, *listen;
    double seconds;
    long keys, value_min, value_max;
    uint64_t seed;
} option = {.connections = 50, .pipeline = 1, .seconds = 3, .keys = 100000, .value_min = 32, .value_max = 32, .gets_per_set = 10, .seed = 1};

static uint64_t deliveries;
/* The connection whose batch is answered and not delivered yet. */
static struct connection *undelivered;
static uint64_t operations, hits, misses, errors, bytes_received, sequence, filled;
static uint64_t histogram[BUCKETS];
static char *value, input[READ_BYTES];
static struct buffer prepared;
static size_t *prepared_ends, prepared_count, prepared_next;
static int poller, stopping;
static long busy;

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

static void reserve(struct buffer *out, size_t bytes) {
    if (out->length + bytes <= out->capacity) return;
    out->capacity = (out->length + bytes) * 2;
    out->bytes = realloc(out->bytes, out->capacity);
    if (!out->bytes) fail("realloc");
}

static void add_set(struct buffer *out, unsigned long key) {
    size_t bytes = option.value_min;
    if (option.value_max > option.value_min) bytes += next_random(&option.seed) % (option.value_max - option.value_min + 1);
    reserve(out, bytes + 96);
    out->length += sprintf(out->bytes + out->length, "*3\r\n$3\r\nSET\r\n$16\r\nkey:%012lu\r\n$%zu\r\n", key, bytes);
    memcpy(out->bytes + out->length, value, bytes);
    memcpy(out->bytes + out->length + bytes, "\r\n", 2);
    out->length += bytes + 2;
}

static void add_get(struct buffer *out, unsigned long key) {
    static const char head[] = "*2\r\n$3\r\nGET\r\n$16\r\nkey:";
    reserve(out, 64);
    char *digits = out->bytes + out->length + sizeof head - 1;
    memcpy(out->bytes + out->length, head, sizeof head - 1);
    for (int digit = 11; digit >= 0; digit--, key /= 10) digits[digit] = '0' + key % 10;
    memcpy(digits + 12, "\r\n", 2);
    out->length += sizeof head - 1 + 14;
}

static void add_request(struct buffer *out) {
    if (sequence++ % (option.gets_per_set + 1) == 0) {
        add_set(out, next_random(&option.seed) % option.keys);
    } else {
        add_get(out, next_random(&option.seed) % option.keys);
    }
}

/* The end of the request that begins at `at`: "*count", then "$length" and an argument so many times. */
static size_t request_end(const struct buffer *in, size_t at) {
    char *next;
    long arguments = strtol(in->bytes + at + 1, &next, 10);
    for (; arguments > 0; arguments--) {
        if (next + 2 >= in->bytes + in->length) break;
        long bytes = strtol(next + 3, &next, 10);
        next += 2 + bytes;
    }
    size_t end = (size_t)(next + 2 - in->bytes);
    if (in->bytes[at] != '*' || end > in->length) {
        fprintf(stderr, "%s: no whole request at %zu\n", option.requests, at);
        exit(2);
    }
    return end;
}

/* Takes the requests from a file; what does not fill a batch at its end is left out. */
static void prepare_from_file(void) {
    FILE *file = fopen(option.requests, "r");
    if (!file) fail(option.requests);
    char part[1 << 16];
    for (size_t length; (length = fread(part, 1, sizeof part, file)) > 0; prepared.length += length) {
        reserve(&prepared, length + 1);
        memcpy(prepared.bytes + prepared.length, part, length);
        prepared.bytes[prepared.length + length] = 0;
    }
    fclose(file);
    int in_batch = 0;
    for (size_t at = 0; at < prepared.length;) {
        at = request_end(&prepared, at);
        if (++in_batch < option.pipeline) continue;
        in_batch = 0;
        prepared_ends = realloc(prepared_ends, (prepared_count + 2) * sizeof *prepared_ends);
        if (!prepared_ends) fail("realloc");
        prepared_ends[0] = 0;
        prepared_ends[++prepared_count] = at;
    }
    if (prepared_count == 0) {
        fprintf(stderr, "%s: less than one batch\n", option.requests);
        exit(2);
    }
}

/* Lays requests out, batch after batch. */
static void prepare(void) {
    if (option.requests) {
        prepare_from_file();
        return;
    }
    if (option.fill || option.value_max > PREPARED_VALUE_BYTES_MAX) return;
    prepared_count = (PREPARED_REQUESTS + option.pipeline - 1) / option.pipeline;
    prepared_ends = calloc(prepared_count + 1, sizeof *prepared_ends);
    if (!prepared_ends) fail("calloc");
    for (size_t batch = 0; batch < prepared_count; batch++) {
        for (int index = 0; index < option.pipeline; index++) add_request(&prepared);
        prepared_ends[batch + 1] = prepared.length;
    }
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
    c->sent_bytes = 0;
    if (prepared_count > 0) {
        size_t batch = prepared_next++ % prepared_count;
        c->request = prepared.bytes + prepared_ends[batch];
        c->request_bytes = prepared_ends[batch + 1] - prepared_ends[batch];
        c->outstanding = option.pipeline;
    } else {
        c->own.length = 0;
        for (int index = 0; index < option.pipeline; index++) {
            if (!option.fill) add_request(&c->own);
            else if (filled < (uint64_t)option.keys) add_set(&c->own, filled++);
            else break;
            c->outstanding++;
        }
        c->request = c->own.bytes;
        c->request_bytes = c->own.length;
    }
    if (c->outstanding == 0) return;
    busy++;
    c->started_ns = now_ns(CLOCK_MONOTONIC);
    flush(c);
}

static void finish_batch(struct connection *c) {
    record(now_ns(CLOCK_MONOTONIC) - c->started_ns);
    busy--;
    if (!stopping) start_batch(c);
}

static void finish_delivered(void) {
    struct connection *c = undelivered;
    if (!c || deliveries < operations * (uint64_t)option.listeners) return;
    undelivered = NULL;
    finish_batch(c);
}

static void finish_reply(struct connection *c) {
    operations++;
    if (--c->outstanding > 0) return;
    if (option.listeners == 0) {
        finish_batch(c);
        return;
    }
    undelivered = c;
    finish_delivered();
}

/* An element of an array, or a reply that is none, is there. */
static void finish_element(struct connection *c) {
    if (c->missing_elements > 0) c->missing_elements--;
    if (c->missing_elements == 0) finish_reply(c);
}

static void read_line(struct connection *c, const char *line) {
    int is_top = c->missing_elements == 0;
    if (line[0] == '$' && line[1] != '-') {
        hits += is_top;
        c->skip_bytes = strtoul(line + 1, NULL, 10) + 2;
        return;
    }
    if (line[0] == '*' && line[1] != '-' && line[1] != '0') {
        /* Its elements take the place of the one that it is. */
        c->missing_elements += strtoul(line + 1, NULL, 10) - !is_top;
        return;
    }
    if (is_top && (line[0] == '$' || line[0] == '_')) misses++;
    if (line[0] == '-' && errors++ == 0) fprintf(stderr, "error reply: %.*s\n", (int)strcspn(line, "\r"), line);
    finish_element(c);
}

/* The length of the whole reply that begins here, if it is a short bulk string or OK and all there; otherwise 0. */
static size_t whole_reply(const char *bytes, size_t length) {
    if (length >= 5 && memcmp(bytes, "+OK\r\n", 5) == 0) return 5;
    if (length < 8 || bytes[0] != '$') return 0;
    size_t digits = 1, payload = 0;
    for (; digits < 5 && bytes[digits] >= '0' && bytes[digits] <= '9'; digits++) payload = payload * 10 + (bytes[digits] - '0');
    if (digits == 1 || bytes[digits] != '\r') return 0;
    size_t whole = digits + 2 + payload + 2;
    return whole <= length ? whole : 0;
}

static void consume(struct connection *c, const char *bytes, size_t length) {
    while (length > 0) {
        size_t whole = c->skip_bytes == 0 && c->line_bytes == 0 ? whole_reply(bytes, length) : 0;
        if (whole > 0) {
            hits += bytes[0] == '$' && c->missing_elements == 0;
            bytes += whole;
            length -= whole;
            finish_element(c);
            continue;
        }
        if (c->skip_bytes > 0) {
            size_t skipped = c->skip_bytes < length ? c->skip_bytes : length;
            bytes += skipped;
            length -= skipped;
            c->skip_bytes -= skipped;
            if (c->skip_bytes == 0) finish_element(c);
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
    if (!c->is_listener) {
        consume(c, input, length);
        return;
    }
    const char *end = input + length;
    for (const char *at = input; (at = memchr(at, '*', end - at)); at++) deliveries++;
    finish_delivered();
}

/* Sends a file and reads until the reply to its last request. */
static void send_prelude(int socket, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) fail(path);
    char part[1 << 14], tail[sizeof PRELUDE_END - 1] = {0};
    for (size_t length; (length = fread(part, 1, sizeof part, file)) > 0;) {
        for (size_t sent = 0; sent < length;) {
            ssize_t now = write(socket, part + sent, length - sent);
            if (now <= 0) fail("write of a prelude");
            sent += now;
        }
    }
    fclose(file);
    while (memcmp(tail, PRELUDE_END, sizeof tail) != 0) {
        char byte;
        if (read(socket, &byte, 1) != 1) fail("reply to a prelude");
        memmove(tail, tail + 1, sizeof tail - 1);
        tail[sizeof tail - 1] = byte;
    }
}

static void connect_all(struct connection *all) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(option.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int index = 0; index < option.connections + option.listeners; index++) {
        struct connection *c = &all[index];
        c->is_listener = index >= option.connections;
        const char *prelude = c->is_listener ? option.listen : option.prelude;
        int on = 1;
        c->socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->socket, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
        if (prelude) send_prelude(c->socket, prelude);
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
        if (strcmp(name, "--sleep") == 0) {
            option.sleep = 1;
            continue;
        }
        const char *text = index + 1 < count ? arguments[++index] : "";
        if (strcmp(name, "--port") == 0) option.port = atoi(text);
        else if (strcmp(name, "--connections") == 0) option.connections = atoi(text);
        else if (strcmp(name, "--prelude") == 0) option.prelude = text;
        else if (strcmp(name, "--listeners") == 0) option.listeners = atoi(text);
        else if (strcmp(name, "--listen") == 0) option.listen = text;
        else if (strcmp(name, "--requests") == 0) option.requests = text;
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
    struct connection *all = calloc(option.connections + option.listeners, sizeof *all);
    if (option.listeners > 0 && (option.connections != 1 || !option.listen)) {
        fprintf(stderr, "--listeners needs --listen and one connection\n");
        exit(2);
    }
    connect_all(all);
    prepare();

    uint64_t start = now_ns(CLOCK_MONOTONIC), end = start + (uint64_t)(option.seconds * 1e9);
    for (int index = 0; index < option.connections; index++) start_batch(&all[index]);
    struct epoll_event events[EVENTS_MAX];
    while (busy > 0) {
        int ready = epoll_wait(poller, events, EVENTS_MAX, option.sleep ? -1 : 0);
        for (int index = 0; index < ready; index++) {
            struct connection *c = events[index].data.ptr;
            if (events[index].events & EPOLLOUT) flush(c);
            if (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        }
        if (!option.fill && now_ns(CLOCK_MONOTONIC) >= end) stopping = 1;
    }
    double elapsed = (now_ns(CLOCK_MONOTONIC) - start) / 1e9;
    printf("{\"operations\": %lu, \"seconds\": %.6f, \"hits\": %lu, \"misses\": %lu, \"errors\": %lu, \"bytes_received\": %lu, "
           "\"batch_p50_us\": %.1f, \"batch_p99_us\": %.1f, \"batch_p999_us\": %.1f}\n",
           operations, elapsed, hits, misses, errors, bytes_received, percentile_us(.5), percentile_us(.99), percentile_us(.999));
    return 0;
}
