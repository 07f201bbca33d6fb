/* The floor: the least that any epoll server on this machine can spend on a request.
 *
 * EPOLLIN is registered once per connection; an event costs one read of up to 64 KiB, one scan that counts requests
 * and one write of 32 bytes for each. Nothing is parsed, stored or allocated. It is a measure and not a server: it
 * counts the bytes '*', so arguments must not hold any.
 *
 *     floor --port N
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, REPLY_BYTES = 32, EVENTS_MAX = 1024 };

static const char reply[REPLY_BYTES + 1] = "$25\r\nnothing was looked up....\r\n";
static char input[READ_BYTES];
/* A request is at least two bytes long here ("*" and something), so this holds the replies to any read. */
static char output[READ_BYTES / 2 * REPLY_BYTES];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int listen_on(int port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    if (listen(listener, 1024) < 0) fail("listen");
    return listener;
}

static void write_all(int connection, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = send(connection, bytes, length, MSG_NOSIGNAL);
        if (written > 0) {
            bytes += written;
            length -= written;
        } else if (written < 0 && errno == EAGAIN) {
            struct pollfd writable = {.fd = connection, .events = POLLOUT};
            poll(&writable, 1, -1);
        } else {
            return;
        }
    }
}

static void serve(int connection) {
    ssize_t length = recv(connection, input, sizeof input, 0);
    if (length <= 0) {
        if (length == 0 || errno != EAGAIN) close(connection);
        return;
    }
    size_t requests = 0;
    for (ssize_t index = 0; index < length; index++) requests += input[index] == '*';
    if (requests > sizeof output / REPLY_BYTES) requests = sizeof output / REPLY_BYTES;
    write_all(connection, output, requests * REPLY_BYTES);
}

int main(int count, char **arguments) {
    int port = 0;
    for (int index = 1; index + 1 < count; index++)
        if (strcmp(arguments[index], "--port") == 0) port = atoi(arguments[index + 1]);
    for (size_t offset = 0; offset < sizeof output; offset += REPLY_BYTES) memcpy(output + offset, reply, REPLY_BYTES);

    int listener = listen_on(port), poller = epoll_create1(0), on = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[EVENTS_MAX];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poller, events, EVENTS_MAX, -1);
        for (int index = 0; index < ready; index++) {
            if (events[index].data.fd != listener) {
                serve(events[index].data.fd);
                continue;
            }
            int connection = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
            if (connection < 0) continue;
            setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            event.data.fd = connection;
            epoll_ctl(poller, EPOLL_CTL_ADD, connection, &event);
        }
    }
}
