// An origin that writes every answer in several pieces and leaves Nagle's algorithm on: what the 40 ms test (T2) needs
// beside echo.c --split, which knows no chunks and no HTTP/2. One thread, epoll.
//
// pieces --tcp PORT --writes N --size BYTES [--how length|chunked|h2c]
//   the head by itself, then the body in N - 1 pieces, or all in one write with --writes 1; as a whole, in chunks, or as
//   DATA of HTTP/2 with prior knowledge. With chunks the last of all is in the last write.
//
// It answers whatever is asked, with so many bytes of the pattern, and sends no more than sockets take at once: it is no
// server for anything else.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "pattern.h"

enum { MAX_FD = 1 << 16, ROOM = 64 << 10, PREFACE = 24, FRAME = 9, LARGEST = 16384 };
enum { DATA = 0, HEADERS = 1, SETTINGS = 4, PING = 6, WINDOW_UPDATE = 8, END = 1, ACK = 1, END_HEADERS = 4 };

struct connection {
    int fd;
    bool greeted;
    size_t have, skip;
    unsigned char in[ROOM];
};

static struct connection *connections[MAX_FD];
static int poller, writes = 2;
static size_t size = 10;
static enum { LENGTH, CHUNKED, H2C } how;
static unsigned char out[1 << 20];
static size_t filled;

static void add(const void *data, size_t len) {
    if (filled + len > sizeof out) abort();
    memcpy(out + filled, data, len);
    filled += len;
}

static bool leave(struct connection *c) {
    ssize_t sent = send(c->fd, out, filled, MSG_NOSIGNAL | MSG_DONTWAIT);
    bool whole = sent == (ssize_t)filled;
    filled = 0;
    return whole;
}

static void frame(int kind, int flags, uint32_t stream, size_t len) {
    unsigned char head[FRAME] = {(unsigned char)(len >> 16), (unsigned char)(len >> 8), (unsigned char)len, (unsigned char)kind, (unsigned char)flags,
                                 (unsigned char)(stream >> 24), (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream};
    add(head, FRAME);
}

// A piece of the body, from `at` on; `last` when none follows.
static void body(size_t at, size_t len, bool last, uint32_t stream) {
    char line[32];
    if (how == CHUNKED && len) add(line, (size_t)snprintf(line, sizeof line, "%zx\r\n", len));
    do {
        size_t part = how == H2C && len > LARGEST ? LARGEST : len;
        if (how == H2C) frame(DATA, last && part == len ? END : 0, stream, part);
        for (size_t left = part; left;) {
            size_t piece = pattern_piece(at, left);
            add(pattern + at % PATTERN, piece);
            at += piece, left -= piece;
        }
        len -= part;
    } while (len);
    if (how == CHUNKED) add(last ? "\r\n0\r\n\r\n" : "\r\n", last ? 7 : 2);
}

static bool answer(struct connection *c, uint32_t stream) {
    char head[128];
    if (how == H2C) {
        frame(HEADERS, END_HEADERS, stream, 1);
        add("\x88", 1); // :status 200 of HPACK's static table
    } else if (how == CHUNKED) {
        add(head, (size_t)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    } else {
        add(head, (size_t)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size));
    }
    if (writes > 1 && !leave(c)) return false;
    size_t pieces = writes > 1 ? (size_t)writes - 1 : 1, each = (size + pieces - 1) / pieces;
    for (size_t at = 0; at < size; at += each) {
        size_t len = size - at < each ? size - at : each;
        body(at, len, at + len == size, stream);
        if (writes > 1 && !leave(c)) return false;
    }
    return writes > 1 || leave(c);
}

// Whole heads of HTTP/1 without bodies; false when the connection is over.
static bool requests(struct connection *c) {
    unsigned char *end;
    while ((end = memmem(c->in, c->have, "\r\n\r\n", 4))) {
        size_t used = (size_t)(end + 4 - c->in);
        memmove(c->in, c->in + used, c->have -= used);
        if (!answer(c, 0)) return false;
    }
    return c->have < ROOM;
}

static bool frames(struct connection *c) {
    if (!c->greeted) {
        if (c->have < PREFACE) return true;
        memmove(c->in, c->in + PREFACE, c->have -= PREFACE);
        c->greeted = true;
        frame(SETTINGS, 0, 0, 0);
        frame(WINDOW_UPDATE, 0, 0, 4);
        add("\x3f\xff\0\0", 4);
        if (!leave(c)) return false;
    }
    size_t at = 0;
    while (c->have - at >= FRAME) {
        unsigned char *f = c->in + at;
        size_t len = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];
        int kind = f[3], flags = f[4];
        uint32_t stream = ((uint32_t)f[5] << 24 | (uint32_t)f[6] << 16 | (uint32_t)f[7] << 8 | f[8]) & 0x7fffffff;
        if (FRAME + len > ROOM) return false;
        if (c->have - at < FRAME + len) break;
        at += FRAME + len;
        bool whole = true;
        if (kind == SETTINGS && !(flags & ACK)) frame(SETTINGS, ACK, 0, 0), whole = leave(c);
        else if (kind == PING && !(flags & ACK)) frame(PING, ACK, 0, len), add(f + FRAME, len), whole = leave(c);
        else if ((kind == HEADERS || kind == DATA) && flags & END) whole = answer(c, stream);
        if (!whole) return false;
    }
    memmove(c->in, c->in + at, c->have -= at);
    return true;
}

static bool readable(struct connection *c) {
    ssize_t n = recv(c->fd, c->in + c->have, ROOM - c->have, MSG_DONTWAIT);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    c->have += (size_t)n;
    return how == H2C ? frames(c) : requests(c);
}

static void accept_all(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *c = fd < MAX_FD ? calloc(1, sizeof *c) : NULL;
        if (!c) { close(fd); continue; }
        c->fd = fd;
        connections[fd] = c;
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    }
}

int main(int argc, char **argv) {
    int port = 0;
    signal(SIGPIPE, SIG_IGN);
    pattern_fill();
    for (int n = 1; n + 1 < argc; n += 2) {
        const char *key = argv[n], *value = argv[n + 1];
        if (!strcmp(key, "--tcp")) port = atoi(value);
        else if (!strcmp(key, "--writes")) writes = atoi(value);
        else if (!strcmp(key, "--size")) size = strtoull(value, NULL, 10);
        else if (!strcmp(key, "--how")) how = !strcmp(value, "h2c") ? H2C : !strcmp(value, "chunked") ? CHUNKED : LENGTH;
        else { fprintf(stderr, "pieces: unknown option %s\n", key); return 2; }
    }
    if (argc % 2 == 0 || !port || !size || size > sizeof out / 2) { fprintf(stderr, "pieces: see the head of pieces.c\n"); return 2; }
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 4096)) { perror("pieces: listen"); return 1; }
    poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, events[256];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        int n = epoll_wait(poller, events, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) { accept_all(fd); continue; }
            if (!readable(connections[fd])) {
                free(connections[fd]);
                connections[fd] = NULL;
                close(fd);
            }
        }
    }
}
