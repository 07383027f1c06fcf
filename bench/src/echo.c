// The origin behind every program under test: one thread, epoll, HTTP/1.1 keep-alive, as cheap as it can be.
//
//   POST /…      the body comes back        POST /sink   only its length comes back
//   GET /N       N bytes of the pattern
//
// echo [--host ADDRESS] [--tcp PORT] [--unix PATH] [--requests N] [--split N] [--count FILE]
//   --host A      where --tcp, which comes after it, listens (127.0.0.1)
//   --requests N  closes a connection after N answers, saying so in the last one
//   --split N     writes every answer in N separate writes and leaves Nagle's algorithm on: the 40 ms test
//   --count FILE  keeps four 64-bit counters there: connections, requests, body bytes in, body bytes out
//
// A PROXY header (version 2) at the begin of a connection is skipped.
//
// It knows as much HTTP as the generators speak, no chunked coding and no pipelining: it is no server for anything else.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include "pattern.h"

enum { MAX_FD = 1 << 17, HEAD = 16 << 10, SCRATCH = 256 << 10, BACKLOG = 16384 };

enum step { READ_HEAD, READ_BODY, SINK_BODY, ANSWER };
enum body { FROM_INPUT, FROM_PATTERN, FROM_HEAD };

struct connection {
    int fd;
    enum step step;
    enum body body;
    bool closing, wants_out;
    char *in;                       // head and, for an echo, the body behind it
    size_t have, room, head_len;
    size_t body_len, body_seen;     // of the request
    char head[256];                 // of the answer
    size_t out_head, out_body, sent;
    long served;
};

struct counters { uint64_t connections, requests, bytes_in, bytes_out; };

static struct connection *connections[MAX_FD];
static struct counters unseen, *counters = &unseen;
static int poller, split_into;
static long requests_each;
static char scratch[SCRATCH];

static void drop(struct connection *c) {
    connections[c->fd] = NULL;
    close(c->fd);
    free(c->in);
    free(c);
}

static void want_out(struct connection *c, bool yes) {
    if (c->wants_out == yes) return;
    c->wants_out = yes;
    struct epoll_event e = {.events = yes ? EPOLLOUT : EPOLLIN, .data.fd = c->fd};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

// The value of a header field, or NULL; `name` in lower case with its colon.
static const char *field(const char *head, size_t len, const char *name) {
    size_t n = strlen(name);
    for (const char *line = head, *end = head + len; (line = memchr(line, '\n', (size_t)(end - line)));) {
        line++;
        if ((size_t)(end - line) <= n) return NULL;
        if (strncasecmp(line, name, n) == 0) {
            line += n;
            while (*line == ' ') line++;
            return line;
        }
    }
    return NULL;
}

static void begin_answer(struct connection *c) {
    char length[32] = "";
    if (c->body == FROM_HEAD) c->out_body = (size_t)snprintf(length, sizeof length, "%zu", c->body_seen);
    c->served++;
    if (requests_each && c->served >= requests_each) c->closing = true;
    c->out_head = (size_t)snprintf(c->head, sizeof c->head, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n%s\r\n%s",
                                   c->out_body, c->closing ? "Connection: close\r\n" : "", length);
    if (c->body == FROM_HEAD) c->out_body = 0;
    c->sent = 0;
    c->step = ANSWER;
    counters->requests++;
    counters->bytes_in += c->body_seen;
    counters->bytes_out += c->out_body;
}

// Takes the PROXY header off the first bytes of a connection; false while it is not whole.
static bool skip_proxy(struct connection *c) {
    static const char signature[12] = "\r\n\r\n\0\r\nQUIT\n";
    size_t known = c->have < sizeof signature ? c->have : sizeof signature;
    if (c->served || memcmp(c->in, signature, known)) return true;
    if (c->have < 16) return false;
    size_t whole = 16 + ((size_t)(unsigned char)c->in[14] << 8 | (unsigned char)c->in[15]);
    if (c->have < whole) return false;
    c->have -= whole;
    memmove(c->in, c->in + whole, c->have);
    return true;
}

// Reads the request head that lies in c->in, if it is whole.
static bool parse_head(struct connection *c) {
    if (!skip_proxy(c)) return c->have < HEAD;
    char *end = memmem(c->in, c->have, "\r\n\r\n", 4);
    if (!end) return c->have < HEAD;
    c->head_len = (size_t)(end + 4 - c->in);
    const char *length = field(c->in, c->head_len, "content-length:");
    const char *connection = field(c->in, c->head_len, "connection:");
    c->body_len = length ? strtoull(length, NULL, 10) : 0;
    c->closing = connection && strncasecmp(connection, "close", 5) == 0;
    c->body_seen = c->have - c->head_len;
    if (c->body_seen > c->body_len) return false;
    if (strncmp(c->in, "GET /", 5) == 0) {
        c->body = FROM_PATTERN;
        c->out_body = strtoull(c->in + 5, NULL, 10);
        c->step = SINK_BODY;
    } else if (strncmp(c->in, "POST /sink ", 11) == 0) {
        c->body = FROM_HEAD;
        c->step = SINK_BODY;
    } else {
        c->body = FROM_INPUT;
        c->out_body = c->body_len;
        c->step = READ_BODY;
        if (c->head_len + c->body_len > c->room) {
            c->room = c->head_len + c->body_len;
            c->in = realloc(c->in, c->room);
            if (!c->in) abort();
        }
    }
    return true;
}

// One send of what is left of the answer; how much went, or -1.
static ssize_t send_some(struct connection *c, size_t at_most) {
    struct iovec iov[2];
    int n = 0;
    size_t body_at = c->sent > c->out_head ? c->sent - c->out_head : 0;
    size_t left = at_most;
    if (c->sent < c->out_head) {
        size_t len = c->out_head - c->sent;
        if (len > left) len = left;
        iov[n++] = (struct iovec){c->head + c->sent, len};
        left -= len;
    }
    size_t body_left = c->out_body - body_at;
    if (body_left > left) body_left = left;
    if (body_left && c->body == FROM_INPUT) iov[n++] = (struct iovec){c->in + c->head_len + body_at, body_left};
    else if (body_left) iov[n++] = (struct iovec){pattern + body_at % PATTERN, pattern_piece(body_at, body_left)};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)n};
    return sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Sends the answer as far as the socket takes it; false when the connection is over.
static bool answer(struct connection *c) {
    size_t whole = c->out_head + c->out_body;
    size_t piece = whole;
    if (split_into > 1) { // the head alone, then the body in equal pieces: how programs that "write twice" look on the wire
        piece = (c->out_body + (size_t)split_into - 2) / ((size_t)split_into - 1);
        if (piece == 0) piece = 1;
    }
    while (c->sent < whole) {
        size_t next = split_into > 1 && c->sent < c->out_head ? c->out_head - c->sent : piece;
        if (next > whole - c->sent) next = whole - c->sent;
        ssize_t n = send_some(c, next);
        if (n < 0 && errno == EAGAIN) { want_out(c, true); return true; }
        if (n < 0) return false;
        c->sent += (size_t)n;
    }
    if (c->closing) return false;
    want_out(c, false);
    c->step = READ_HEAD;
    c->have = 0;
    if (c->room > HEAD) { // a big body must not stay with an idle connection
        c->in = realloc(c->in, HEAD);
        c->room = HEAD;
    }
    return true;
}

static bool readable(struct connection *c) {
    if (c->step == SINK_BODY) {
        size_t left = c->body_len - c->body_seen;
        ssize_t n = recv(c->fd, scratch, left < SCRATCH ? left : SCRATCH, MSG_DONTWAIT);
        if (n <= 0) return n < 0 && errno == EAGAIN;
        c->body_seen += (size_t)n;
    } else {
        if (!c->in) {
            c->in = malloc(HEAD);
            c->room = HEAD;
            if (!c->in) abort();
        }
        ssize_t n = recv(c->fd, c->in + c->have, c->room - c->have, MSG_DONTWAIT);
        if (n <= 0) return n < 0 && errno == EAGAIN;
        c->have += (size_t)n;
        if (c->step == READ_BODY) c->body_seen += (size_t)n;
        else if (!parse_head(c)) return false;
    }
    if (c->step == READ_HEAD || c->body_seen < c->body_len) return true;
    begin_answer(c);
    return answer(c);
}

static void accept_all(int listener, bool tcp) {
    int one = 1;
    for (int n = 0; n < 64; n++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        if (fd >= MAX_FD) { close(fd); continue; }
        if (tcp && !split_into) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct connection *c = calloc(1, sizeof *c);
        if (!c) abort();
        c->fd = fd;
        connections[fd] = c;
        counters->connections++;
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    }
}

static int listen_on(struct sockaddr *address, socklen_t len) {
    int one = 1, fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, address, len) || listen(fd, BACKLOG)) { perror("echo: listen"); exit(1); }
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    return fd;
}

static int listen_tcp(const char *host, int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = inet_addr(host)};
    return listen_on((struct sockaddr *)&a, sizeof a);
}

static int listen_unix(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path) { fprintf(stderr, "echo: path too long: %s\n", path); exit(1); }
    strcpy(a.sun_path, path);
    unlink(path);
    int fd = listen_on((struct sockaddr *)&a, sizeof a);
    chmod(path, 0777); // hitch connects as another user
    return fd;
}

static void count_in(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, sizeof *counters)) { perror("echo: --count"); exit(1); }
    counters = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counters == MAP_FAILED) { perror("echo: --count"); exit(1); }
    close(fd);
}

int main(int argc, char **argv) {
    int tcp = -1, local = -1;
    const char *host = "127.0.0.1";
    signal(SIGPIPE, SIG_IGN);
    pattern_fill();
    poller = epoll_create1(EPOLL_CLOEXEC);
    for (int n = 1; n + 1 < argc; n += 2) {
        const char *key = argv[n], *value = argv[n + 1];
        if (!strcmp(key, "--host")) host = value;
        else if (!strcmp(key, "--tcp")) tcp = listen_tcp(host, atoi(value));
        else if (!strcmp(key, "--unix")) local = listen_unix(value);
        else if (!strcmp(key, "--requests")) requests_each = atol(value);
        else if (!strcmp(key, "--split")) split_into = atoi(value);
        else if (!strcmp(key, "--count")) count_in(value);
        else { fprintf(stderr, "echo: unknown option %s\n", key); return 2; }
    }
    if (argc % 2 == 0 || (tcp < 0 && local < 0)) { fprintf(stderr, "echo: see the head of echo.c\n"); return 2; }
    struct epoll_event events[512];
    for (;;) {
        int n = epoll_wait(poller, events, 512, -1);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == tcp || fd == local) { accept_all(fd, fd == tcp); continue; }
            struct connection *c = connections[fd];
            if (!c) continue;
            bool alive = c->step == ANSWER ? answer(c) : readable(c);
            if (!alive) drop(c);
        }
    }
}
